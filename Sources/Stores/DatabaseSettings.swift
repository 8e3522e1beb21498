internal import GatewayKit
package import SettingsKit

/// PostgreSQL for the state instead of a file in the data directory.
package struct DatabaseSettings: SettingsSection {
    /// A libpq connection URL; `nil` uses the file.
    package var url: Secret<String>?
    package var connections = 8
    /// Per host of the URL, in whole seconds.
    package var connectTimeout = Duration.seconds(5)
    /// Maximum wait for rows locked by others.
    package var lockTimeout = Duration.seconds(5)
    package var statementTimeout = Duration.seconds(30)

    package init() {}

    package static let table: [Setting] = [
        setting(
            "database.url",
            \.url,
            secret: .databaseURL,
            "PostgreSQL database for the state of one or more nodes, instead of a file in the data directory; requires masterSecret."
        ),
        setting(
            "database.connections",
            \.connections,
            .count(1...1000),
            "Maximum number of connections of each node for calls; it has one more for messages between nodes."
        ),
        setting(
            "database.connectTimeout",
            \.connectTimeout,
            .duration(.seconds(2) ... .seconds(600)),
            "Maximum time to connect to each host of the URL, unless the URL has connect_timeout; in whole seconds."
        ),
        setting(
            "database.lockTimeout",
            \.lockTimeout,
            .duration(DurationText.timeouts),
            "Maximum wait for rows that other calls have locked; beyond it, the response is 503."
        ),
        setting(
            "database.statementTimeout",
            \.statementTimeout,
            .duration(DurationText.timeouts),
            "Maximum time for one statement; beyond it, the response is 503. A server that answers nothing for 5s longer is given up."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        demands.demand(
            settings.general.masterSecret != nil || settings.database.url == nil,
            "masterSecret",
            because: "database.url",
            "must be set, and the same for all nodes, because database.url is"
        )
        demands.demand(
            !settings.acme.isOn || settings.database.url == nil,
            "acme.domains",
            because: "database.url",
            "cannot be set together with database.url: each node would order its own certificate, and the authority may ask another node; use tls.certificate, or a proxy that gets certificates"
        )
    }
}

extension Settings {
    package var database: DatabaseSettings {
        get { self[DatabaseSettings.self] }
        set { self[DatabaseSettings.self] = newValue }
    }
}

extension SettingFormat where Value == String {
    package static let databaseURL = SettingFormat(
        allowed:
            "a PostgreSQL URL as libpq reads it, such as postgres://user:password@host:5432/database?sslmode=verify-full",
        parse: { text in
            ["postgres://", "postgresql://"].contains(where: text.hasPrefix) && !text.utf8.contains(0) ? text : nil
        },
        render: { $0 }
    )
}
