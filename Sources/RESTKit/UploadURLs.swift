package import Foundation
internal import Synchronization
package import UploadCore
package import UploadModel

/// Checks whether an upload URL is still valid when URLs expire with the API key that admitted the upload.
package final class UploadURLs: Sendable {
    /// Facts about an upload that never change.
    private struct Facts: Sendable {
        let issuer: String?
        let subject: String?
        let createdAt: Date
    }

    private static let mostFacts = 10_000

    private let service: UploadService
    /// `nil` where upload URLs outlive their keys (`uploads.revokeWithKey`).
    private let revoked: RevocationList?
    private let known = Mutex<[UploadID: Facts]>([:])

    package init(service: UploadService, revoked: RevocationList?) {
        self.service = service
        self.revoked = revoked
    }

    /// Checks that the URL of an upload may be used.
    ///
    /// The state is read once for each upload, and only where URLs end with keys.
    ///
    /// - Throws: `.forbidden` if the key that admitted the upload, or a credential minted at its creation, was revoked;
    ///   `.notFound`; errors of the state store.
    package func check(_ id: UploadID) async throws(UploadError) {
        guard revoked != nil else { return }
        try await check(facts(of: id))
    }

    /// Checks that a link may be used whose upload may not exist yet.
    ///
    /// - Parameters:
    ///   - issuer: The id of the API key that admitted it, or whose token did.
    ///   - subject: The user for whom it was made.
    ///   - time: When it was made.
    /// - Throws: As the above.
    package func check(issuer: String?, subject: String?, createdAt time: Date) async throws(UploadError) {
        try await check(Facts(issuer: issuer, subject: subject, createdAt: time))
    }

    private func check(_ facts: Facts) async throws(UploadError) {
        guard let revoked else { return }
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

    /// Whether upload URLs expire with the key that admitted the upload.
    package var revokeWithKey: Bool { revoked != nil }

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
