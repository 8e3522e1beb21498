package import SettingsKit
package import Transport
package import UploadCore
internal import UploadModel

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
    /// Files in one form.
    package var formFiles = 100
    package var connections = 20_000
    package var blockingThreads = 16
    /// Between a stated time and the clock.
    package var clockSkew = Duration.seconds(900)
    package var address = Address()
    /// Limits of one API key; 0 for none.
    package var key = ClientRates()
    /// Limits of one subject; 0 for none.
    package var subject = Self.defaultSubject

    /// Limits of one client address; 0 for none.
    package struct Address: Sendable, Equatable {
        package var rates = Self.defaultRates
        package var connections = 5000
        /// Clients that have none of these limits.
        package var exempt = Self.loopback

        /// Far more than an app or an office behind one address sends, and less than what fills a server.
        private static let defaultRates: ClientRates = {
            var rates = ClientRates()
            rates.requestsPerSecond = 1000
            rates.uploads = 4000
            return rates
        }()
        private static let loopback = ["127.0.0.0/8", "::1"].compactMap { PeerRange($0) }

        package init() {}
    }

    private static let defaultSubject: ClientRates = {
        var rates = ClientRates()
        rates.requestsPerSecond = 1000
        rates.uploads = 1000
        return rates
    }()

    package init() {}

    package static let table: [Setting] =
        [
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
                "limits.formFiles",
                \.formFiles,
                .count(1...1000),
                "Maximum number of files in one form; the first ones are stored, and the others get 413."
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
            setting(
                "limits.clockSkew",
                \.clockSkew,
                .duration(.seconds(1) ... .seconds(86_400)),
                "How far a time that a client, an issuer or another node states may be ahead of this server's clock, or for a signed request behind it; a vendor's own limit applies if it is shorter; in whole seconds."
            ),
            setting(
                "limits.address.connections",
                \.address.connections,
                .count(0...1_000_000),
                "Connections of one address to one listener at the same time; more are closed at once; 0 for no limit. Trusted proxies have none."
            ),
            setting(
                "limits.address.exempt",
                \.address.exempt,
                .peers,
                "Clients to which no limits.address applies; empty for none."
            ),
        ]
        + rates(
            "address",
            of: "client address",
            \.address.rates.requestsPerSecond,
            \.address.rates.burst,
            \.address.rates.uploads,
            \.address.rates.bytesPerSecond
        )
        + rates(
            "key",
            of: "API key, with the tokens and uploads that it made",
            \.key.requestsPerSecond,
            \.key.burst,
            \.key.uploads,
            \.key.bytesPerSecond
        )
        + rates(
            "subject",
            of: "subject",
            \.subject.requestsPerSecond,
            \.subject.burst,
            \.subject.uploads,
            \.subject.bytesPerSecond
        )

    private static func rates(
        _ name: String,
        of client: String,
        _ requestsPerSecond: any WritableKeyPath<LimitSettings, Int> & Sendable,
        _ burst: any WritableKeyPath<LimitSettings, Int> & Sendable,
        _ uploads: any WritableKeyPath<LimitSettings, Int> & Sendable,
        _ bytesPerSecond: any WritableKeyPath<LimitSettings, Int64> & Sendable
    ) -> [Setting] {
        [
            setting(
                "limits.\(name).requestsPerSecond",
                requestsPerSecond,
                .count(0...1_000_000),
                "Requests of one \(client), in a second; beyond it, the response is 429; 0 for no limit."
            ),
            setting(
                "limits.\(name).burst",
                burst,
                .count(0...10_000_000),
                "Requests of one \(client), that may come at once after a pause; 0 for those of ten seconds."
            ),
            setting(
                "limits.\(name).uploads",
                uploads,
                .count(0...1_000_000),
                "Requests of one \(client), that send content at the same time; beyond it, the response is 429; 0 for no limit."
            ),
            setting(
                "limits.\(name).bytesPerSecond",
                bytesPerSecond,
                .bytes(0...(1 << 40)),
                "Bytes of content of one \(client), in a second; beyond it, content is read later; 0 for no limit."
            ),
        ]
    }

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

extension LimitSettings {
    package var clockSkewSeconds: Int64 { clockSkew.components.seconds }
}

extension Settings {
    package var limits: LimitSettings {
        get { self[LimitSettings.self] }
        set { self[LimitSettings.self] = newValue }
    }
}
