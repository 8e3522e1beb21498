internal import CloudCalls
internal import Foundation
internal import UploadModel
internal import VODKit

/// What one app user may begin without sending it.
extension ApsaraLibrary {
    private var begun: BegunUploads { BegunUploads("aliyun begun", in: records) }

    /// The change that counts new media for its user, until its content arrives or nothing is left of it.
    ///
    /// Media that is deleted before counts, too, because its record stays for some time.
    ///
    /// - Throws: `ApsaraError`, `Throttling.User` if the user has begun too many.
    func counting(_ media: ApsaraMedia) async throws(ApsaraError) -> [DialectChange] {
        guard let user = media.subject else { return [] }
        let end = Date(timeIntervalSince1970: Double(media.openUntil + place.uploadSeconds))
        guard let beginning = try await core(await begun.beginning(media.id, of: user, until: end, at: clock.now))
        else {
            throw ApsaraError(
                400,
                "Throttling.User",
                "The user has begun \(BegunUploads.maximum) uploads and not sent them; send them, or wait."
            )
        }
        return [beginning]
    }

    func discounting(_ media: ApsaraMedia) -> [DialectChange] {
        media.subject.map { [begun.ending(media.id, of: $0)] } ?? []
    }
}
