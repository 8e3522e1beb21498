package import SettingsKit

/// Settings for the events of uploads.
package struct EventSettings: SettingsSection {
    /// Whether events are kept that neither a hook nor a recent event stream wants.
    package var keepsAll = false

    package init() {}

    package static let table: [Setting] = [
        setting(
            "events.keepAll",
            \.keepsAll,
            .flag,
            "Whether to keep every event for a week. Otherwise, events that no hook receives are only kept if an event stream was open in the week before."
        )
    ]
}

extension Settings {
    package var events: EventSettings {
        get { self[EventSettings.self] }
        set { self[EventSettings.self] = newValue }
    }
}
