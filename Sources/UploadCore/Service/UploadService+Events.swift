internal import Foundation

extension UploadService {
    /// What happened to an upload just now, to be recorded with it.
    func event(_ kind: EventRecord.Kind, of upload: Upload, by request: RequestInfo? = nil) -> EventRecord {
        let now = self.now
        return EventRecord(
            id: "msg_" + UploadID.generate(at: now).text,
            kind: kind,
            upload: upload,
            request: request ?? RequestContext.current?.info,
            occurredAt: now,
            delivery: hooks.wants(kind) ? EventRecord.Delivery(nextAttemptAt: now) : nil
        )
    }

    /// Uploads that get bytes at this moment, with what they have now.
    package func uploadsInProgress() async -> [Upload] {
        var current: [Upload] = []
        for var upload in appends.uploads {
            // One that ends meanwhile is told of by its end.
            guard let length = try? await storage.currentLength(of: upload.id) else { continue }
            upload.offset = max(upload.offset, length)
            current.append(upload)
        }
        return current
    }

    /// Records how far running uploads have come, where a hook wants that.
    package func recordProgress() async {
        guard hooks.wants(.progress) else { return }
        for upload in await uploadsInProgress() { await recordProgress(of: upload) }
    }

    func recordProgress(of upload: Upload) async {
        let (isNew, request) = appends.tell(upload.id, at: upload.offset)
        guard isNew else { return }
        do throws(UploadError) {
            try await state.record(event(.progress, of: upload, by: request))
            bell.ring()
        } catch {
            report(error, of: upload.id)
        }
    }

    /// Stops an upload because the app says so: its writer is cut off and told `answer`, and an open upload is terminated.
    ///
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.storageFailure`.
    package func stop(_ id: UploadID, answer: HookAnswer) async throws(UploadError) {
        try await reporting(id) { () async throws(UploadError) in
            try await appends.stopping(id, answer: answer) { () async throws(UploadError) in
                try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                    guard let upload = try await state.upload(id) else { throw Self.notFound }
                    if upload.state == .open { try await end(upload, as: .terminated) }
                }
            }
        }
    }
}
