internal import Foundation
internal import Synchronization
internal import UploadCore

/// Whether an upload URL still is good for something, where it ends with the key that admitted the upload.
final class UploadURLs: Sendable {
    /// What never changes of an upload.
    private struct Facts: Sendable {
        let issuer: String?
        let subject: String?
        let createdAt: Date
    }

    private static let mostFacts = 10_000

    private let service: UploadService
    /// `nil` where upload URLs outlive their keys (`uploads.endWithKey`).
    private let revoked: RevocationList?
    private let known = Mutex<[UploadID: Facts]>([:])

    init(service: UploadService, revoked: RevocationList?) {
        self.service = service
        self.revoked = revoked
    }

    /// Checks that the URL of an upload may be used.
    ///
    /// The state is read once for each upload, and only where URLs end with keys.
    ///
    /// - Throws: `.forbidden` if the key that admitted the upload was revoked, or what was minted when the upload was created;
    ///   `.notFound`; if the state does not answer.
    func check(_ id: UploadID) async throws(UploadError) {
        guard let revoked else { return }
        let facts = try await facts(of: id)
        let isOver = try await revoked.isRevoked(
            issuer: facts.issuer,
            subject: facts.subject,
            issuedAt: facts.createdAt
        )
        guard isOver else { return }
        throw UploadError(
            .forbidden(scope: nil),
            "The API key or token that admitted this upload was revoked, and its URL ends with it; create the upload anew."
        )
    }

    /// For a stream that is opened by the URL; `nil` where nothing ends it.
    func holder(of upload: Upload) -> StreamWatch.Holder? {
        revoked == nil
            ? nil : .upload(issuer: upload.issuer, subject: upload.subject, createdAt: upload.createdAt)
    }

    private func facts(of id: UploadID) async throws(UploadError) -> Facts {
        if let known = known.withLock({ $0[id] }) { return known }
        let upload = try await service.recorded(id)
        let facts = Facts(issuer: upload.issuer, subject: upload.subject, createdAt: upload.createdAt)
        known.withLock { known in
            if known.count >= Self.mostFacts { known.removeAll() }
            known[id] = facts
        }
        return facts
    }
}
