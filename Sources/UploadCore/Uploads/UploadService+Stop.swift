package import UploadModel

extension UploadService {
    /// Stops an upload at the app's request: its writer is cut off and receives `response`, and an open upload is
    /// terminated.
    ///
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.storageFailure`.
    package func stop(_ id: UploadID, response: HookResponse) async throws(UploadError) {
        try await context.reporting(id) { () async throws(UploadError) in
            try await appends.stopping(id, response: response) { () async throws(UploadError) in
                try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                    guard let upload = try await state.upload(id) else { throw UploadError.noUpload }
                    if upload.state == .open { try await lifecycle.end(upload, as: .terminated) }
                }
            }
        }
    }
}
