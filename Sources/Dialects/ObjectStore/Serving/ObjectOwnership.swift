package import Foundation
package import UploadCore

/// Objects that a video service makes media of.
package protocol ObjectOwnership: Sendable {
    /// Refuses an object that nobody would make media of.
    ///
    /// - Returns: Seconds for which an upload in parts is to be kept at least; `nil` for an object of nobody.
    /// - Throws: `.gone` for media that was deleted; `.unavailable`, `.storageFailure`.
    func admit(_ name: ObjectName) async throws(UploadError) -> TimeInterval?

    /// An object was stored; called before the client learns of it.
    ///
    /// If the gateway dies before, the owner finds the object by itself.
    func stored(_ name: ObjectName) async
}

extension ObjectStoreHandler {
    /// Refuses an object whose media was deleted: the client then gives up, and does not ask for other credentials.
    ///
    /// - Returns: As `ObjectOwnership.admit`.
    /// - Throws: `NoSuchKey`.
    @discardableResult
    func admit(_ name: ObjectName) async throws(ObjectError) -> TimeInterval? {
        guard let owner else { return nil }
        do throws(UploadError) {
            return try await owner.admit(name)
        } catch {
            guard error.code == .gone else { throw ObjectError(error, about: .object) }
            throw ObjectError(.noSuchKey, error.message)
        }
    }
}
