package import HTTPWire
package import SettingsKit

package struct UploadSettings: SettingsSection {
    /// Since the last append; `nil` means never.
    package var expireAfter: Duration? = .seconds(24 * 3600)
    package var sweepEvery = Duration.seconds(60)
    /// How long blobs without a record are kept.
    package var quarantine = Duration.seconds(7 * 86400)
    package var takeOverTimeout = Duration.seconds(10)
    /// Open uploads whose records and files are kept ready for the next append.
    package var recent = 128
    /// How long, after the last append.
    package var recentFor = Duration.seconds(5)
    package var interimResponses = InterimResponses.direct
    /// Upload URLs stop working when the API key that admitted the upload is revoked.
    package var revokeWithKey = false
    /// DELETE on an upload URL also removes completed uploads.
    package var deleteAfterCompletion = false
    package var goneStatus = GoneResponse.gone
    /// Clients can end uploads by DELETE on an upload URL.
    package var termination = true
    /// Content is served to clients.
    package var downloads = true
    /// GET on the upload URL of a complete upload returns its content.
    package var downloadsByUploadURL = false

    /// Status that tus returns for an upload that has ended.
    package enum GoneResponse: String, Sendable, CaseIterable {
        /// 410
        case gone
        /// 404
        case notFound
    }

    package enum InterimResponses: String, Sendable, CaseIterable {
        /// Only to clients that are not behind a proxy, as far as that can be detected.
        case direct
        case always
        case never
    }

    package init() {}

    /// Whether a request is a GET on an upload URL that `downloadsByUploadURL` answers; with the draft's field it asks for
    /// the offset.
    package static func isForContent(_ head: RequestHead) -> Bool {
        head.method == .get && head.target.segments.count == 2 && !head.fields.contains("Upload-Draft-Interop-Version")
    }

    package static let table: [Setting] = [
        setting(
            "uploads.expireAfter",
            \.expireAfter,
            .duration(.seconds(1) ... .seconds(3650 * 86400), zero: "never"),
            "Time after its last append at which an unfinished upload expires."
        ),
        setting(
            "uploads.sweepEvery",
            \.sweepEvery,
            .duration(.seconds(1) ... .seconds(86400)),
            "Interval of the sweep, which removes expired uploads."
        ),
        setting(
            "uploads.quarantine",
            \.quarantine,
            .duration(.zero ... .seconds(365 * 86400)),
            "How long bytes without a record are kept."
        ),
        setting(
            "uploads.takeOverTimeout",
            \.takeOverTimeout,
            .duration(.milliseconds(100) ... .seconds(600)),
            "How long a request waits for an older request for the same upload to stop."
        ),
        setting(
            "uploads.recent",
            \.recent,
            .count(0...10_000),
            "How many open uploads are kept ready for their next append: their records in memory, and their files open, as far as a sixteenth of the descriptors allows; 0 keeps none."
        ),
        setting(
            "uploads.recentFor",
            \.recentFor,
            .duration(.milliseconds(100) ... .seconds(600)),
            "How long an upload is kept ready after its last append."
        ),
        setting(
            "uploads.interimResponses",
            \.interimResponses,
            .choice,
            "Which clients get interim responses (104), which not every proxy passes on: those whose TLS ends here and that no proxy names, all, or none."
        ),
        setting(
            "uploads.revokeWithKey",
            \.revokeWithKey,
            .flag,
            "Whether upload URLs stop working, and pulls end, when the API key that admitted the upload is revoked, and by POST /v1/revocations."
        ),
        setting(
            "uploads.deleteAfterCompletion",
            \.deleteAfterCompletion,
            .flag,
            "Whether DELETE on an upload URL also removes a completed upload."
        ),
        setting(
            "uploads.termination",
            \.termination,
            .flag,
            "Whether DELETE on an upload URL ends the upload; if not, it returns 405, and tus does not announce it."
        ),
        setting(
            "media.downloads",
            \.downloads,
            .flag,
            "Whether media and objects can be downloaded; if not, requests for their content return 403."
        ),
        setting(
            "media.downloadsByUploadURL",
            \.downloadsByUploadURL,
            .flag,
            "Whether GET on the upload URL of a complete upload returns its content, as with tusd; whoever has the URL can read the file then."
        ),
        setting(
            "uploads.goneStatus",
            \.goneStatus,
            .choice,
            "Status that tus returns for an upload that expired or was terminated: gone (410), or notFound (404), after which more clients create a new one."
        ),
    ]
}

extension Settings {
    package var uploads: UploadSettings {
        get { self[UploadSettings.self] }
        set { self[UploadSettings.self] = newValue }
    }
}
