internal import HTTPWire
internal import UploadCore

/// The uploads that path segments and parameters name.
struct UploadNames: Sendable {
    let service: UploadService
    let locator: UploadLocator
    let access: Access

    /// The upload that the last segment of its upload URL gives access to.
    ///
    /// - Returns: `nil` for what is no such segment, though it may be an id.
    func credential(_ text: String) -> UploadID? { locator.id(in: text) }

    /// An upload by its id, by the name that the app gave it, or by the last segment of its upload URL; a problem calls it
    /// `kind`.
    ///
    /// - Throws: `Problem` 404; 500 or 503 if the state can not be read.
    func id(_ text: String, kind: String = "upload") async throws(Problem) -> UploadID {
        if let id = locator.id(in: text) { return id }
        let found = try await access.core { () throws(UploadError) in try await service.identify(text) }
        guard let found else { throw Problem(404, "not_found", "there is no \(kind) with this id or name") }
        return found
    }
}
