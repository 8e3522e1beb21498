package import SettingsKit
package import Transport

/// Settings for fetching from URLs.
package struct PullSettings: SettingsSection {
    package var isEnabled = true
    /// Maximum concurrent pulls.
    package var concurrency = 4
    /// Addresses that are not public but allowed.
    package var allow: [CIDR] = []
    /// Whether tokens of users reach these, too.
    package var allowsUsers = false
    package var maximumRedirects = 5
    package var connectTimeout = Duration.seconds(10)
    /// Maximum time without enough bytes.
    package var timeout = Duration.seconds(30)
    /// Maximum consecutive failures.
    package var attempts = 10
    /// Before the second attempt.
    package var retryDelay = Duration.seconds(1)
    /// PEM file; `nil` uses the system's authorities.
    package var authorities: String?

    package init() {}

    package static let table: [Setting] = [
        setting("pull.enabled", \.isEnabled, .flag, "Whether the gateway fetches from URLs that apps name."),
        setting(
            "pull.concurrency",
            \.concurrency,
            .count(1...256),
            "Maximum number of URLs to fetch from at the same time. App users (subjects) have turns; none has all places, or several while another one waits with none."
        ),
        setting(
            "pull.allow",
            \.allow,
            .ranges,
            "Addresses that may be fetched from although they are not public."
        ),
        setting(
            "pull.allowUsers",
            \.allowsUsers,
            .flag,
            "Whether users may name URLs in these ranges with the tokens that an API key with the scope upload has made for them; otherwise only such a key itself may."
        ),
        setting("pull.maximumRedirects", \.maximumRedirects, .count(0...50), "Maximum number of redirects to follow."),
        setting(
            "pull.connectTimeout",
            \.connectTimeout,
            .duration(.milliseconds(100) ... .seconds(600)),
            "Maximum time for name lookup, TCP and TLS."
        ),
        setting(
            "pull.timeout",
            \.timeout,
            .duration(.seconds(1) ... .seconds(86400)),
            "Maximum time in which fewer bytes arrive than limits.bodyRate, or none; in whole seconds."
        ),
        setting(
            "pull.attempts",
            \.attempts,
            .count(1...1000),
            "Consecutive failures, without a new byte, after which a pull is given up."
        ),
        setting(
            "pull.retryDelay",
            \.retryDelay,
            .duration(.milliseconds(10) ... .seconds(3600)),
            "Delay before the second attempt; doubled for each further failure, up to 10 minutes."
        ),
        setting(
            "pull.authorities",
            \.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted, instead of those of the system."
        ),
    ]
}

extension Settings {
    package var pull: PullSettings {
        get { self[PullSettings.self] }
        set { self[PullSettings.self] = newValue }
    }
}
