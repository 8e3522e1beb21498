package import SettingsKit

package struct LimitSettings: SettingsSection {
    /// Bytes.
    package var requestLine = 32 << 10
    /// Bytes.
    package var headerBytes = 64 << 10
    package var headerCount = 100
    /// Maximum content of a request that is not an upload, in bytes.
    package var bodyBytes = 1 << 20
    /// Minimum rate of request content, in bytes per second.
    package var bodyRate: Int64 = 100
    /// Maximum size of one upload, in bytes.
    package var uploadBytes: Int64 = 1 << 40
    package var connections = 20_000
    package var blockingThreads = 16

    package init() {}

    package static let table: [Setting] = [
        setting(
            "limits.requestLine",
            \.requestLine,
            .bytes(256...(1 << 20)),
            "Longest request line; beyond it, the response is 414."
        ),
        setting(
            "limits.headerBytes",
            \.headerBytes,
            .bytes(1024...(16 << 20)),
            "Largest request head; beyond it, the response is 431."
        ),
        setting(
            "limits.headerCount",
            \.headerCount,
            .count(1...10000),
            "Maximum number of header fields of a request; beyond it, the response is 431."
        ),
        setting(
            "limits.bodyBytes",
            \.bodyBytes,
            .bytes(1024...(1 << 30)),
            "Largest content of a request that is not an upload; beyond it, the response is 413."
        ),
        setting(
            "limits.bodyRate",
            \.bodyRate,
            .bytes(0...(1 << 30)),
            "Minimum rate of request content in bytes per second, measured over all the time spent waiting for it, once timeouts.bodyProgress has passed; 0 for no limit."
        ),
        setting(
            "limits.uploadBytes",
            \.uploadBytes,
            .bytes(1...Int64.max),
            "Largest upload; beyond it, the response is 413."
        ),
        setting(
            "limits.connections",
            \.connections,
            .count(1...1_000_000),
            "Maximum number of connections at the same time; more wait to be accepted."
        ),
        setting(
            "limits.blockingThreads",
            \.blockingThreads,
            .count(1...1024),
            "Number of threads for disk and state work."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let limits = settings.limits
        demands.demand(
            limits.headerBytes >= limits.requestLine,
            "limits.headerBytes",
            because: "limits.headerBytes",
            "must not be smaller than limits.requestLine (\(ByteCountText.format(Int64(limits.requestLine))))"
        )
    }
}

extension Settings {
    package var limits: LimitSettings {
        get { self[LimitSettings.self] }
        set { self[LimitSettings.self] = newValue }
    }
}
