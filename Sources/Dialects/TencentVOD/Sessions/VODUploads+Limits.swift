internal import Foundation
internal import UploadModel
internal import VODKit

/// What one user, and one application, may begin.
extension VODUploads {
    /// Checks how many uploads begin in a second.
    ///
    /// - Throws: `.tooManyRequests`.
    func checkRate(of signer: VODSigner) throws(VODError) {
        guard limiter.admits(signer.rateName, of: signer.owner.subject, at: clock.now) else {
            throw VODError(.tooManyRequests, "too many uploads begin at once; try again in a second")
        }
    }

    /// Sessions of users that were begun and not committed.
    private var begun: BegunUploads { BegunUploads("tencent begun", in: records) }

    /// The change that counts a session for its user.
    ///
    /// - Throws: `VODError`, `.tooManyRequests`.
    func counting(_ session: VODSession, at now: Date) async throws(VODError) -> [DialectChange] {
        guard let user = session.user else { return [] }
        // Its removal ends it.
        let end = now.addingTimeInterval(Self.longestUpload)
        guard let beginning = try await core(await begun.beginning(session.fileID, of: user, until: end, at: now))
        else {
            throw VODError(
                .tooManyRequests,
                "this user has begun \(BegunUploads.maximum) uploads and not committed them; commit them, or wait"
            )
        }
        return [beginning]
    }

    func discounting(_ session: VODSession) -> [DialectChange] {
        session.user.map { [begun.ending(session.fileID, of: $0)] } ?? []
    }
}
