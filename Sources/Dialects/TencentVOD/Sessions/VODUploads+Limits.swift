internal import Foundation
internal import UploadModel
internal import VODKit

/// What one user, and one application, may begin.
extension VODUploads {
    /// Checks how many uploads begin in a second.
    ///
    /// - Throws: `.tooManyRequests`.
    func checkRate(of signer: VODSigner) throws(VODFailure) {
        guard limiter.admits(signer.rateName, of: signer.owner.subject, at: clock.now) else {
            throw VODFailure(.tooManyRequests, "too many uploads begin at once; try again in a second")
        }
    }

    /// Sessions of users that were begun and not committed.
    private var begun: BegunUploads { BegunUploads("tencent begun", in: records) }

    /// Counts a session for its user.
    ///
    /// - Throws: `.tooManyRequests`; `UploadError`.
    func count(_ session: VODSession, at now: Date) async throws {
        guard let user = session.user else { return }
        // Its removal ends it.
        let end = now.addingTimeInterval(Self.longestUpload)
        guard try await begun.begin(session.fileID, of: user, until: end, at: now) else {
            throw VODFailure(
                .tooManyRequests,
                "this user has begun \(BegunUploads.maximum) uploads and not committed them; commit them, or wait"
            )
        }
    }

    func discount(_ session: VODSession) async throws(UploadError) {
        if let user = session.user { try await begun.end(session.fileID, of: user) }
    }
}
