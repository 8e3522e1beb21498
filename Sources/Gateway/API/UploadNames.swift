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
    /// - Parameters:
    ///   - text: What names it.
    ///   - kind: What a problem calls it.
    ///   - limits: Of the API key that asks; what it is not for is not there.
    /// - Returns: Its id.
    /// - Throws: `Problem` 404; 500 or 503 if the state can not be read.
    func id(
        _ text: String,
        kind: String = "upload",
        within limits: KeyLimits = KeyLimits()
    ) async throws(Problem) -> UploadID {
        let missing = Problem(404, "not_found", "there is no \(kind) with this id or name")
        var id = locator.id(in: text)
        if id == nil { id = try await access.core { () throws(UploadError) in try await service.identify(text) } }
        guard let id else { throw missing }
        if limits.isEmpty { return id }
        let upload = try await access.core { () throws(UploadError) in try await service.recorded(id) }
        guard limits.covers(upload) else { throw missing }
        return id
    }
}
