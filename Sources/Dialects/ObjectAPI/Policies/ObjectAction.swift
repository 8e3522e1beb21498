package import UploadCore

/// What a request to the object endpoint does, in words for all three dialects.
///
/// The raw values are in session tokens: they never change.
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
    /// Reads an object that is copied; what is written is another action.
    case copySource = 13
    case headBucket = 14
    case getBucketLocation = 15

    /// All that an upload of an object needs, whole, by parts or appended, and looking at what came.
    package static let upload: Set<ObjectAction> = [
        .headObject, .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart,
        .completeMultipartUpload, .abortMultipartUpload, .listParts, .listMultipartUploads, .headBucket,
        .getBucketLocation,
    ]

    /// Looking at objects, and taking copies of them.
    package static let read: Set<ObjectAction> = [
        .getObject, .headObject, .listObjects, .copySource, .headBucket, .getBucketLocation,
    ]

    /// What sessions may do at most that are made for an API key.
    package static func allowed(to key: APIKey) -> Set<ObjectAction> {
        if key.allows(.admin) { return Set(allCases) }
        var actions: Set<ObjectAction> = []
        if key.allows(.mint) || key.allows(.upload) { actions.formUnion(upload) }
        if key.allows(.read) { actions.formUnion(read) }
        if key.allows(.delete) { actions.insert(.deleteObject) }
        return actions
    }

    /// Is about a bucket and not about one key; a listing is about the keys with a prefix.
    package var isForBucket: Bool { isListing || self == .headBucket || self == .getBucketLocation }

    /// Names keys that have a prefix.
    package var isListing: Bool { self == .listObjects || self == .listMultipartUploads }

    /// Brings bytes of an object.
    package var bringsContent: Bool {
        self == .putObject || self == .postObject || self == .appendObject || self == .uploadPart
    }

    /// Says of what media type an object is.
    package var bringsContentType: Bool {
        bringsContent && self != .uploadPart || self == .createMultipartUpload
    }
}
