/// The app's own word on what happens to uploads; names and meaning are those of tusd's hooks.
///
/// Each call may take as long as its timeout allows, and adds what the client is to be answered to
/// `RequestContext.current`.
package protocol UploadHooks: Sendable {
    /// Whether an event of this kind is to be told.
    func wants(_ kind: EventRecord.Kind) -> Bool

    /// Before an upload is recorded (pre-create).
    ///
    /// - Throws: `.rejected`; `.unavailable` if the app can not be asked and has to be.
    func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges

    /// When all bytes are there, and before that is recorded and answered (pre-finish).
    ///
    /// - Throws: `.unavailable` if the app can not be asked and has to be; the upload stays open, and the next request for it
    ///   tries again.
    func willFinish(_ upload: Upload) async throws(UploadError)

    /// Before a client's termination (pre-terminate).
    ///
    /// - Throws: `.rejected`; `.unavailable` if the app can not be asked and has to be.
    func willTerminate(_ upload: Upload) async throws(UploadError)
}

/// What a pre-create hook changes.
package struct CreationChanges: Sendable, Equatable {
    /// The name that the app gives the upload; see `Upload.alias`.
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

/// For servers whose app has no hooks.
package struct NoHooks: UploadHooks {
    package init() {}

    package func wants(_ kind: EventRecord.Kind) -> Bool { false }
    package func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges { CreationChanges() }
    package func willFinish(_ upload: Upload) async throws(UploadError) {}
    package func willTerminate(_ upload: Upload) async throws(UploadError) {}
}
