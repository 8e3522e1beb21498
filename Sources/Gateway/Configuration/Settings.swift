package import Transport
package import UploadCore
package import Webhooks

/// Everything that can be configured, with its defaults.
///
/// How it is written, and what is allowed: `SettingsTable`.
package struct Settings: Sendable, Equatable {
    package init() {}

    /// Where uploads and state are kept; relative to the working directory.
    package var dataDirectory = "./data"
    package var gateway = Gateway()
    /// `http(s)://host[:port][/prefix]` without a slash at its end; `nil` takes it from the request.
    package var publicURL: String?
    /// Peers whose forwarding fields are believed.
    package var trustedProxies: [CIDR] = []
    /// Presets the first API key; at least 16 visible ASCII characters.
    package var adminKey: Secret<String>?
    /// At least 32 bytes; `nil` takes the one in the data directory.
    package var masterSecret: Secret<[UInt8]>?
    package var tencent = Tencent()
    package var durability = Durability.acknowledged
    package var tls = TLS()
    package var limits = Limits()
    package var timeouts = Timeouts()
    package var uploads = Uploads()
    package var quota = Quota()
    package var hooks = Hooks()
    package var pull = Pull()
    package var cors = CORS()
    package var metrics = Metrics()
    package var log = Log()

    package struct Gateway: Sendable, Equatable {
        package var listen = ListenAddress(host: "127.0.0.1", port: 8080)
        /// Event loops; 0 means one per core.
        package var loops = 0
    }

    package struct Tencent: Sendable, Equatable {
        package var mode = TencentMode.relay
        package var secretID: String?
        package var secretKey: Secret<String>?
    }

    package enum TencentMode: String, Sendable, CaseIterable {
        /// Signs with a key pair of its own and takes the bytes itself.
        case relay
        /// Signs with the key pair of the Tencent account; the bytes go to Tencent.
        case direct
    }

    /// When stored bytes are forced to stable storage; the names are those of the storage.
    package enum Durability: String, Sendable, CaseIterable {
        case acknowledged, completed, none
    }

    /// Paths of PEM files; both or none.
    package struct TLS: Sendable, Equatable {
        package var certificate: String?
        package var key: String?
    }

    package struct Limits: Sendable, Equatable {
        /// Bytes.
        package var requestLine = 8 << 10
        /// Bytes.
        package var headerBytes = 64 << 10
        package var headerCount = 100
        /// Bytes of the content of a request that is no upload.
        package var bodyBytes = 1 << 20
        /// Bytes a second.
        package var bodyRate: Int64 = 100
        /// Bytes of one upload.
        package var uploadBytes: Int64 = 1 << 40
        package var connections = 20_000
        package var blockingThreads = 16
    }

    package struct Timeouts: Sendable, Equatable {
        /// From the first byte of a request to the end of its head.
        package var head = Duration.seconds(15)
        /// Between two requests of a connection.
        package var idle = Duration.seconds(75)
        /// Without a byte of the content.
        package var bodyProgress = Duration.seconds(60)
        /// Without a byte of the answer being taken.
        package var write = Duration.seconds(60)
        /// For a whole request; `nil` is no limit.
        package var request: Duration?
        /// For running requests at shutdown.
        package var shutdownGrace = Duration.seconds(20)
    }

    package struct Uploads: Sendable, Equatable {
        /// Since the last append; `nil` is never.
        package var expireAfter: Duration? = .seconds(24 * 3600)
        package var sweepEvery = Duration.seconds(60)
        package var takeOverTimeout = Duration.seconds(10)
    }

    /// What holds for accounts without a policy of their own.
    package struct Quota: Sendable, Equatable {
        package var period = Duration.seconds(86400)
        package var subject = Policy()
        package var key = Policy()

        package subscript(kind: Account.Kind) -> Policy {
            get { kind == .subject ? subject : key }
            set { if kind == .subject { subject = newValue } else { key = newValue } }
        }
    }

    package struct Hooks: Sendable, Equatable {
        /// `nil` for no hooks.
        package var url: String?
        package var events: Set<HookName> = [.preCreate, .postCreate, .postReceive, .postFinish, .postTerminate]
        /// `whsec_` and base64; `nil` derives one from the master secret.
        package var secret: Secret<String>?
        package var timeout = Duration.seconds(15)
        package var onFailure = OnFailure.refuse
        package var attempts = 20
        package var concurrency = 16
        package var progressEvery = Duration.seconds(2)
        package var forwardHeaders: [String] = []

        /// What the server does when a blocking hook can not be asked.
        package enum OnFailure: String, Sendable, CaseIterable {
            case refuse, allow
        }
    }

    /// Fetching from URLs.
    package struct Pull: Sendable, Equatable {
        package var isEnabled = true
        /// At the same time.
        package var concurrency = 4
        /// Not public, and allowed all the same.
        package var allow: [CIDR] = []
        package var maximumRedirects = 5
        package var connectTimeout = Duration.seconds(10)
        /// Without enough bytes coming.
        package var timeout = Duration.seconds(30)
        /// Failures in a row.
        package var attempts = 10
        /// Before the second attempt.
        package var retryDelay = Duration.seconds(1)
        /// PEM file; `nil` takes those of the system.
        package var authorities: String?
    }

    package struct CORS: Sendable, Equatable {
        package var isEnabled = true
        package var origins = Origins.any

        package enum Origins: Sendable, Equatable {
            case any
            /// As browsers write them: lower case, no default port, no path.
            case only([String])
        }
    }

    package struct Metrics: Sendable, Equatable {
        package var access = Access.key

        package enum Access: String, Sendable, CaseIterable {
            /// An API key with scope `read`.
            case key
            /// Anybody who reaches the listener.
            case open
        }
    }

    package struct Log: Sendable, Equatable {
        package var level = Level.info
        package var format = Format.json

        /// The names are those of swift-log.
        package enum Level: String, Sendable, CaseIterable {
            case trace, debug, info, notice, warning, error, critical
        }

        package enum Format: String, Sendable, CaseIterable {
            case json, text
        }
    }
}
