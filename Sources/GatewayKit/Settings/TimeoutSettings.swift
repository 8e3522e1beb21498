package import SettingsKit

package struct TimeoutSettings: SettingsSection {
    /// From the first byte of a request to the end of its head.
    package var head = Duration.seconds(15)
    /// Between two requests on a connection.
    package var idle = Duration.seconds(75)
    /// Maximum time without a byte of request content.
    package var bodyProgress = Duration.seconds(60)
    /// Maximum time without the client accepting a byte of the response.
    package var write = Duration.seconds(60)
    /// For a whole request; `nil` means no limit.
    package var request: Duration?
    /// Between SIGTERM and the closing of the listeners.
    package var drain = Duration.zero
    /// For running requests at shutdown.
    package var shutdownGrace = Duration.seconds(20)

    package init() {}

    package static let table: [Setting] = [
        setting(
            "timeouts.head",
            \.head,
            .duration(DurationText.timeouts),
            "Maximum time for the head of a request to arrive."
        ),
        setting(
            "timeouts.idle",
            \.idle,
            .duration(DurationText.timeouts),
            "Maximum time until the next request on a connection."
        ),
        setting(
            "timeouts.bodyProgress",
            \.bodyProgress,
            .duration(DurationText.timeouts),
            "Maximum time without a byte of the content arriving."
        ),
        setting(
            "timeouts.write",
            \.write,
            .duration(DurationText.timeouts),
            "Maximum time without the client taking a byte of the response."
        ),
        setting(
            "timeouts.request",
            \.request,
            .duration(DurationText.timeouts, zero: "no limit"),
            "Maximum time for a whole request, with its content and its response."
        ),
        setting(
            "timeouts.drain",
            \.drain,
            .duration(.zero ... .seconds(3600)),
            "Time after SIGTERM in which connections are still accepted and /readyz answers 503, so that proxies choose other nodes first."
        ),
        setting(
            "timeouts.shutdownGrace",
            \.shutdownGrace,
            .duration(.zero ... .seconds(86400)),
            "Time for running requests to end at shutdown; then uploads are cut off, and received bytes are kept."
        ),
    ]
}

extension Settings {
    package var timeouts: TimeoutSettings {
        get { self[TimeoutSettings.self] }
        set { self[TimeoutSettings.self] = newValue }
    }
}
