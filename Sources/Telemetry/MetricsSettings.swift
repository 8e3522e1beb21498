internal import RESTKit
package import SettingsKit

package struct MetricsSettings: SettingsSection {
    package var access = Access.key

    package enum Access: String, Sendable, CaseIterable {
        /// An API key with scope `read`.
        case key
        /// Anyone who can reach the listener.
        case open
    }

    package init() {}

    package static let table: [Setting] = [
        setting(
            "metrics.access",
            \.access,
            .choice,
            "Who may read /metrics: holders of an API key with scope read, or anybody."
        )
    ]
}

extension Settings {
    package var metrics: MetricsSettings {
        get { self[MetricsSettings.self] }
        set { self[MetricsSettings.self] = newValue }
    }
}
