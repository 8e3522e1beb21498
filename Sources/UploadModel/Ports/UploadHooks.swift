/// Hooks with which the app decides about uploads; names and meaning follow tusd's hooks.
///
/// Each call may take until its timeout. It adds the hook's changes to the response to `RequestContext.current`.
package protocol UploadHooks: Sendable {
    /// Whether the app wants events of this kind.
    func wants(_ kind: EventRecord.Kind) -> Bool

    /// Whether the app is asked before an upload is created or complete; if not, `willCreate` and `willFinish` do nothing.
    var decidesUploads: Bool { get }

    /// Runs before an upload is recorded (pre-create).
    ///
    /// - Throws: `.rejected`; `.unavailable` if the app cannot be reached and its decision is required.
    func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges

    /// Runs when all bytes are stored, before the completion is recorded and answered (pre-finish).
    ///
    /// - Throws: `.unavailable` if the app cannot be reached and its decision is required; the upload stays open, and
    ///   the next request for it tries again.
    func willFinish(_ upload: Upload) async throws(UploadError)

    /// Runs before a client terminates an upload (pre-terminate).
    ///
    /// - Throws: `.rejected`; `.unavailable` if the app cannot be reached and its decision is required.
    func willTerminate(_ upload: Upload) async throws(UploadError)
}

/// What a pre-create hook changes.
package struct CreationChanges: Sendable, Equatable {
    /// The app's name for the upload; see `Upload.alias`.
    package var alias: String?
    /// Replaces all metadata.
    package var metadata: [String: String]?
    /// See `Upload.key`.
    package var key: String?

    package init(alias: String? = nil, metadata: [String: String]? = nil, key: String? = nil) {
        self.alias = alias
        self.metadata = metadata
        self.key = key
    }
}

/// Used by servers whose app has no hooks.
package struct NoHooks: UploadHooks {
    package init() {}

    package func wants(_ kind: EventRecord.Kind) -> Bool { false }
    package var decidesUploads: Bool { false }
    package func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges { CreationChanges() }
    package func willFinish(_ upload: Upload) async throws(UploadError) {}
    package func willTerminate(_ upload: Upload) async throws(UploadError) {}
}
