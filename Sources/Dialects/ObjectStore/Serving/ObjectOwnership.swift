package import Foundation
package import UploadModel

/// Objects that a video service makes media of.
package protocol ObjectOwnership: Sendable {
    /// Refuses an object that nobody would make media of.
    ///
    /// - Returns: What is known of it; `nil` for an object of nobody.
    /// - Throws: `.gone` for media that was deleted; `.unavailable`, `.storageFailure`.
    func admit(_ name: ObjectName) async throws(UploadError) -> ObjectAdmission?

    /// An object was stored; called before the client learns of it.
    ///
    /// If the gateway dies before, the owner finds the object by itself.
    func stored(_ name: ObjectName) async
}

/// Several video services.
package struct ObjectOwners: ObjectOwnership {
    private let all: [any ObjectOwnership]

    package init(_ all: [any ObjectOwnership]) { self.all = all }

    package func admit(_ name: ObjectName) async throws(UploadError) -> ObjectAdmission? {
        for owner in all { if let admission = try await owner.admit(name) { return admission } }
        return nil
    }

    package func stored(_ name: ObjectName) async { for owner in all { await owner.stored(name) } }
}

/// What the owner of an object knows of it before it arrives.
package struct ObjectAdmission: Sendable, Equatable {
    /// Seconds for which an upload in parts is to be kept at least; `nil` for no longer than others.
    package let keptFor: TimeInterval?
    /// For a client that does not know the type; `nil` if it is not known here either.
    package let contentType: String?

    package init(keptFor: TimeInterval?, contentType: String?) {
        self.keptFor = keptFor
        self.contentType = contentType
    }
}

extension S3ObjectHeaders {
    /// The same with the media type of the object, if the request says none.
    func typed(by admission: ObjectAdmission?) -> S3ObjectHeaders {
        guard let type = admission?.contentType, contentType == nil || contentType == "application/octet-stream" else {
            return self
        }
        var copy = self
        copy.contentType = type
        return copy
    }
}

extension ObjectStoreHandler {
    /// Refuses an object whose media was deleted: the client then gives up, and does not ask for other credentials.
    ///
    /// - Returns: As `ObjectOwnership.admit`.
    /// - Throws: `NoSuchKey`.
    @discardableResult
    func admit(_ name: ObjectName) async throws(ObjectError) -> ObjectAdmission? {
        guard let owner else { return nil }
        do throws(UploadError) {
            return try await owner.admit(name)
        } catch {
            guard error.code == .gone else { throw ObjectError(error, about: .object) }
            throw ObjectError(.noSuchKey, error.message)
        }
    }
}
