package import UploadModel

/// An action on the object endpoint, independent of the vendor, or a call of ApsaraVideo VOD by a session.
///
/// Raw values are stored in session tokens and must never change.
package enum ObjectAction: Int, Sendable, CaseIterable {
    case getObject = 0
    case headObject = 1
    case putObject = 2
    /// An upload by an HTML form.
    case postObject = 3
    case appendObject = 4
    case createMultipartUpload = 5
    case uploadPart = 6
    case completeMultipartUpload = 7
    case abortMultipartUpload = 8
    case listParts = 9
    case listMultipartUploads = 10
    case listObjects = 11
    case deleteObject = 12
    /// Reads the source of a copy; writing the target is another action.
    case copySource = 13
    case headBucket = 14
    case getBucketLocation = 15
    case createUploadVideo = 16
    case createUploadImage = 17
    case createUploadAttachedMedia = 18
    case refreshUploadVideo = 19
    case uploadMediaByURL = 20
    case getURLUploadInfos = 21
    case getUploadDetails = 22
    case deleteMultipartUpload = 23
    case getVideoInfo = 24
    case getVideoInfos = 25
    case updateVideoInfo = 26
    case deleteVideo = 27
    case getMezzanineInfo = 28
    case getPlayInfo = 29
    case getImageInfo = 30
    case deleteImage = 31
    case searchMedia = 32
    case setMessageCallback = 33
    case getMessageCallback = 34

    /// Beginning and continuing uploads of ApsaraVideo VOD.
    package static let videoUpload: Set<ObjectAction> = [
        .createUploadVideo, .createUploadImage, .createUploadAttachedMedia, .refreshUploadVideo,
    ]

    /// Reading what ApsaraVideo VOD knows of media.
    package static let videoRead: Set<ObjectAction> = [
        .getURLUploadInfos, .getUploadDetails, .getVideoInfo, .getVideoInfos, .getMezzanineInfo, .getPlayInfo,
        .getImageInfo, .searchMedia, .getMessageCallback,
    ]

    /// Changing media of ApsaraVideo VOD, or making it from a URL.
    package static let videoChange: Set<ObjectAction> = [.uploadMediaByURL, .updateVideoInfo, .setMessageCallback]

    package static let videoDeletion: Set<ObjectAction> = [.deleteVideo, .deleteImage, .deleteMultipartUpload]

    /// The name of a call of ApsaraVideo VOD, such as `CreateUploadVideo`; `nil` for the object endpoint.
    package var videoCall: String? {
        guard isVideoCall else { return nil }
        let name = "\(self)"
        return name.prefix(1).uppercased() + name.dropFirst()
    }

    /// Whether it is a call of ApsaraVideo VOD, and not a request to the object endpoint.
    package var isVideoCall: Bool { rawValue >= Self.createUploadVideo.rawValue }

    /// Everything needed to upload an object, in one request, in parts or by appending, and to look at the result.
    package static let upload: Set<ObjectAction> = [
        .headObject, .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart,
        .completeMultipartUpload, .abortMultipartUpload, .listParts, .listMultipartUploads, .headBucket,
        .getBucketLocation,
    ]

    /// Reading objects and copying them.
    package static let read: Set<ObjectAction> = [
        .getObject, .headObject, .listObjects, .copySource, .headBucket, .getBucketLocation,
    ]

    /// The scope that an API key needs to do it itself; `nil` for uploading objects, which `mint` stands for, too.
    package var scope: Scope? {
        switch self {
        case .headObject, .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart,
            .completeMultipartUpload, .abortMultipartUpload, .listParts, .listMultipartUploads, .headBucket,
            .getBucketLocation:
            nil
        case .createUploadVideo, .createUploadImage, .createUploadAttachedMedia, .refreshUploadVideo: .mint
        case .uploadMediaByURL, .updateVideoInfo, .setMessageCallback: .upload
        case .getObject, .listObjects, .copySource, .getURLUploadInfos, .getUploadDetails, .getVideoInfo,
            .getVideoInfos, .getMezzanineInfo, .getPlayInfo, .getImageInfo, .searchMedia, .getMessageCallback:
            .read
        case .deleteObject, .deleteVideo, .deleteImage, .deleteMultipartUpload: .delete
        }
    }

    /// Whether it concerns the media of all subjects.
    package var concernsAll: Bool { self == .setMessageCallback || self == .getMessageCallback }

    /// What a session that may do this can do, in the terms of API keys.
    package static func rights(
        of actions: Set<ObjectAction>,
        for subject: String?,
        at reach: MintedRights.Reach
    ) -> MintedRights {
        MintedRights(
            Set(actions.compactMap(\.scope)),
            subject: subject,
            reach: reach,
            concernsAll: actions.contains(where: \.concernsAll)
        )
    }

    /// The most that a session minted with an API key may do, anywhere within the key's limits.
    ///
    /// Objects do not tell whose they are. A key that only its subjects limit reads and deletes none by such a session.
    package static func allowed(to key: APIKey) -> Set<ObjectAction> {
        let isBound = key.isBoundToSubjects
        return Set(
            allCases.filter { action in
                if action.concernsAll, !key.actsForAll { return false }
                guard let scope = action.scope else { return key.allows(.mint) || key.allows(.upload) }
                return key.allows(scope) && (action.isVideoCall || !isBound)
            }
        )
    }

    /// Whether it concerns the bucket and not a single key; a listing concerns the keys with a prefix.
    package var isForBucket: Bool { isListing || self == .headBucket || self == .getBucketLocation }

    /// Whether it lists keys with a prefix.
    package var isListing: Bool { self == .listObjects || self == .listMultipartUploads }

    /// Whether the request contains object bytes.
    package var bringsContent: Bool {
        self == .putObject || self == .postObject || self == .appendObject || self == .uploadPart
    }

    /// Whether the request declares an object's media type.
    package var bringsContentType: Bool {
        bringsContent && self != .uploadPart || self == .createMultipartUpload
    }
}
