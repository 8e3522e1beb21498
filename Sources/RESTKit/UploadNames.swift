internal import HTTPWire
package import UploadCore
package import UploadModel

/// Finds uploads by path segments and parameters.
package struct UploadNames: Sendable {
    package let service: UploadService
    package let locator: UploadLocator
    package let access: Access

    package init(service: UploadService, locator: UploadLocator, access: Access) {
        self.service = service
        self.locator = locator
        self.access = access
    }

    /// The upload that belongs to the last segment of an upload URL.
    ///
    /// - Returns: `nil` if it is not such a segment, even if it is an upload id.
    package func credential(_ text: String) -> UploadID? { locator.id(in: text) }

    /// Finds an upload by its id, by the app's name for it, or by the last segment of its upload URL.
    ///
    /// - Parameters:
    ///   - text: The id, name or segment.
    ///   - kind: What a problem document calls it.
    ///   - limits: Limits of the API key; uploads outside them count as not found.
    /// - Returns: Its id.
    /// - Throws: `Problem` 404; 500 or 503 if the state cannot be read.
    package func id(
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
