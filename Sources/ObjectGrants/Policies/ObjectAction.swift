package import UploadCore

/// An action on the object endpoint, independent of the vendor.
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

    /// The most that a session minted with an API key may do.
    package static func allowed(to key: APIKey) -> Set<ObjectAction> {
        if key.allows(.admin) { return Set(allCases) }
        var actions: Set<ObjectAction> = []
        if key.allows(.mint) || key.allows(.upload) { actions.formUnion(upload) }
        if key.allows(.read) { actions.formUnion(read) }
        if key.allows(.delete) { actions.insert(.deleteObject) }
        return actions
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
