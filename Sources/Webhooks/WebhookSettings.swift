internal import HTTPWire
package import SettingsKit
internal import Signing

package struct WebhookSettings: SettingsSection {
    /// `nil` without hooks over HTTP.
    package var url: String?
    /// `nil` without programs as hooks.
    package var directory: String?
    package var events: Set<HookName> = [.preCreate, .postCreate, .postReceive, .postFinish, .postTerminate]
    /// `whsec_` and base64; `nil` derives one from the master secret.
    package var secret: Secret<String>?
    package var timeout = Duration.seconds(15)
    package var onFailure = OnFailure.refuse
    package var attempts = 20
    package var concurrency = 16
    package var progressEvery = Duration.seconds(2)
    package var forwardHeaders: [String] = []

    /// What the server does when a blocking hook cannot be asked.
    package enum OnFailure: String, Sendable, CaseIterable {
        case refuse, allow
    }

    package init() {}

    package static let table: [Setting] = [
        setting(
            "hooks.url",
            \.url,
            optional: .receiverURL,
            "URL of the app that receives the hooks, in the form of tusd. Without it and without hooks.directory, there are no hooks."
        ),
        setting(
            "hooks.directory",
            \.directory,
            optional: .absolutePath,
            "Directory of programs that are run as hooks, instead of hooks.url; each has the name of its hook, as in tusd."
        ),
        setting(
            "hooks.events",
            \.events,
            .names(),
            "The hooks to send; with hooks.directory, those of them that have a program there are run."
        ),
        setting(
            "hooks.secret",
            \.secret,
            secret: .hookSecret,
            "Key that hooks are signed with (Standard Webhooks); if not set, one is derived: `sluice credentials webhooks`."
        ),
        setting(
            "hooks.timeout",
            \.timeout,
            .duration(DurationText.timeouts),
            "Maximum time for one hook, until its response has arrived or its program has ended."
        ),
        setting(
            "hooks.onFailure",
            \.onFailure,
            .choice,
            "What happens if the call of a blocking hook (pre-create, pre-finish, pre-terminate) fails; allow is for outages of the app only."
        ),
        setting(
            "hooks.attempts",
            \.attempts,
            .count(1...1000),
            "Number of attempts to deliver an event, at intervals of 1, 2, 4 … seconds, at most an hour."
        ),
        setting(
            "hooks.concurrency",
            \.concurrency,
            .count(1...1000),
            "Maximum number of events that are delivered at the same time. With hooks.directory, as many programs of blocking hooks can run besides."
        ),
        setting(
            "hooks.progressEvery",
            \.progressEvery,
            .duration(.milliseconds(100) ... .seconds(3600)),
            "Interval of post-receive for an upload that is receiving bytes."
        ),
        setting(
            "hooks.forwardHeaders",
            \.forwardHeaders,
            .texts(
                "names of header fields separated by commas, such as Cookie, X-Tenant",
                { FieldName($0) != nil }
            ),
            "Header fields of the client's request that are copied to blocking hooks, including credentials."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        demands.demand(
            settings.hooks.url == nil || settings.hooks.directory == nil,
            "hooks.directory",
            because: "hooks.url",
            "must not be set together with hooks.url, because each event is delivered once: remove one of them, or let a program call the URL"
        )
    }
}

extension Settings {
    package var hooks: WebhookSettings {
        get { self[WebhookSettings.self] }
        set { self[WebhookSettings.self] = newValue }
    }
}

extension SettingFormat where Value == String {
    package static let hookSecret = SettingFormat(
        allowed: "whsec_ and base64 of 24 to 64 random bytes",
        parse: { WebhookSigner.key(in: $0) == nil ? nil : $0 },
        render: { $0 }
    )
}
