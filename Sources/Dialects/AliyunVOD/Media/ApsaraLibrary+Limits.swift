internal import CloudCalls
internal import Foundation
internal import UploadModel
internal import VODKit

/// What one app user may begin without sending it.
extension ApsaraLibrary {
    private var begun: BegunUploads { BegunUploads("aliyun begun", in: records) }

    /// Counts new media for its user, until its content arrives or nothing is left of it.
    ///
    /// Media that is deleted before counts, too, because its record stays for some time.
    ///
    /// - Throws: `Throttling.User` if the user has begun too many; `UploadError`.
    func count(_ media: ApsaraMedia) async throws {
        guard let user = media.subject else { return }
        let end = Date(timeIntervalSince1970: Double(media.openUntil + place.uploadSeconds))
        guard try await begun.begin(media.id, of: user, until: end, at: clock.now) else {
            throw AliyunCallFailure(
                400,
                "Throttling.User",
                "The user has begun \(BegunUploads.maximum) uploads and not sent them; send them, or wait."
            )
        }
    }

    func discount(_ media: ApsaraMedia) async throws(UploadError) {
        if let user = media.subject { try await begun.end(media.id, of: user) }
    }
}
