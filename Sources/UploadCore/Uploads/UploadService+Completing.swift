internal import UploadModel

extension UploadService {
    /// Completes an upload that has all its bytes, as an object.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - attributes: Attributes of the object.
    /// - Returns: The recorded upload; one that is already complete is returned unchanged.
    /// - Throws: The errors of `append` that concern completion.
    func complete(_ id: UploadID, _ attributes: ObjectAttributes) async throws(UploadError) -> Upload {
        let upload = try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) -> Upload in
            var upload = try await lifecycle.reconciled(id)
            guard upload.state == .open else { return upload }
            upload.attributes = attributes
            return try await context.reporting(id) { () async throws(UploadError) -> Upload in
                try await lifecycle.complete(upload)
            }
        }
        return try await finished(upload)
    }
}
