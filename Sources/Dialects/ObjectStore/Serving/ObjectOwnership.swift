package import UploadCore

/// Objects that a video service makes media of.
package protocol ObjectOwnership: Sendable {
    /// Refuses an object that nobody would make media of.
    ///
    /// - Throws: `.gone` for media that was deleted; `.unavailable`, `.storageFailure`.
    func admit(_ name: ObjectName) async throws(UploadError)

    /// An object was stored; called before the client learns of it.
    ///
    /// If the gateway dies before, the owner finds the object by itself.
    func stored(_ name: ObjectName) async
}

extension ObjectStoreHandler {
    /// Refuses an object whose media was deleted: the client then gives up, and does not ask for other credentials.
    ///
    /// - Throws: `NoSuchKey`.
    func admit(_ name: ObjectName) async throws(ObjectError) {
        guard let owner else { return }
        do throws(UploadError) {
            try await owner.admit(name)
        } catch {
            guard error.code == .gone else { throw ObjectError(error, about: .object) }
            throw ObjectError(.noSuchKey, error.message)
        }
    }
}
