internal import RESTKit
package import SettingsKit
package import UploadModel

/// Quotas of accounts without a policy of their own.
package struct QuotaSettings: SettingsSection {
    package var period = Duration.seconds(86400)
    package var subject = Policy()
    package var key = Policy()

    package subscript(kind: Account.Kind) -> Policy {
        get { kind == .subject ? subject : key }
        set { if kind == .subject { subject = newValue } else { key = newValue } }
    }

    package init() {}

    package static let table: [Setting] =
        [
            setting(
                "quota.period",
                \.period,
                .duration(.seconds(1) ... .seconds(366 * 86400)),
                "Length of the period for periodBytes and periodUploads; periods are counted from 1970-01-01T00:00:00Z, so a day begins at midnight UTC."
            )
        ] + policy(.subject, "one app user (subject)")
        + policy(.key, "one API key and its tokens")

    /// The policies of accounts that have none of their own.
    package var policies: [Account.Kind: Policy] { [.subject: subject, .key: key] }

    /// Keys of the settings of policies.
    static let policyKeys = (policy(.subject, "") + policy(.key, "")).map(\.key)

    /// The policy of accounts that have none of their own.
    private static func policy(_ kind: Account.Kind, _ whom: String) -> [Setting] {
        let prefix = "quota.\(kind.rawValue)"
        return [
            setting(
                prefix + ".storedBytes",
                \.[kind].storedBytes,
                optional: .bytes(0...Int64.max),
                "Maximum bytes of media and open uploads of \(whom)."
            ),
            setting(
                prefix + ".periodBytes",
                \.[kind].periodBytes,
                optional: .bytes(0...Int64.max),
                "Maximum bytes of uploads that \(whom) begins in a period."
            ),
            setting(
                prefix + ".openUploads",
                \.[kind].openUploads,
                optional: .count(0...Int64.max),
                "Maximum number of uploads that \(whom) has open at the same time."
            ),
            setting(
                prefix + ".periodUploads",
                \.[kind].periodUploads,
                optional: .count(0...Int64.max),
                "Maximum number of uploads that \(whom) begins in a period."
            ),
            setting(
                prefix + ".uploadBytes",
                \.[kind].uploadBytes,
                optional: .bytes(0...Int64.max),
                "Largest upload of \(whom)."
            ),
            setting(
                prefix + ".contentTypes",
                \.[kind].contentTypes,
                .texts("media types separated by commas, such as video/mp4, image/*", MediaTypeText.isPattern),
                "Media types that uploads of \(whom) may declare; if not set, all."
            ),
            setting(
                prefix + ".extensions",
                \.[kind].extensions,
                .texts(
                    "extensions separated by commas, in lower case and without the dot, such as mp4, mov",
                    FileExtensionText.isValid
                ),
                "Extensions that file names of \(whom) may have; if not set, all."
            ),
            setting(
                prefix + ".checksContent",
                \.[kind].checksContent,
                .flag,
                "Whether the first bytes of files of \(whom) must match the declared media type and contentTypes."
            ),
        ]
    }
}

extension Settings {
    package var quota: QuotaSettings {
        get { self[QuotaSettings.self] }
        set { self[QuotaSettings.self] = newValue }
    }
}
