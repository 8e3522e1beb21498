package import ObjectAPI
package import S3Storage
package import Signing
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
    /// `nil` takes the one in the data directory.
    package var masterSecret: Secret<MasterSecret>?
    package var aws = AWS()
    package var aliyun = Aliyun()
    package var tencent = Tencent()
    package var storage = Storage.disk
    package var durability = Durability.acknowledged
    package var s3 = S3()
    package var object = Object()
    package var identity = Identity()
    package var database = Database()
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

    /// The account whose credentials and URLs are minted in `direct` mode.
    package struct AWS: Sendable, Equatable {
        /// Empty for no `direct` mode.
        package var buckets: [String] = []
        package var accessKeyID: String?
        /// Without a pair, credentials are looked for as AWS's own tools do.
        package var secretAccessKey: Secret<String>?
        package var region = "us-east-1"
        /// `nil` federates the user whose pair it is.
        package var roleARN: String?
        package var externalID: String?
        /// `http(s)://host[:port]`; `nil` is AWS's in the region, as for the other one.
        package var stsEndpoint: String?
        package var s3Endpoint: String?
        package var isPathStyle = false
    }

    /// The same for Alibaba Cloud.
    package struct Aliyun: Sendable, Equatable {
        package var buckets: [String] = []
        package var accessKeyID: String?
        package var accessKeySecret: Secret<String>?
        package var region: String?
        package var roleARN: String?
        package var stsEndpoint: String?
        package var ossEndpoint: String?
    }

    package struct Tencent: Sendable, Equatable {
        package var mode = TencentMode.relay
        package var secretID: String?
        package var secretKey: Secret<String>?
        /// For credentials and URLs of COS in `direct` mode, as those below.
        package var region: String?
        package var buckets: [String] = []
        package var stsEndpoint: String?
        package var cosEndpoint: String?
    }

    package enum TencentMode: String, Sendable, CaseIterable {
        /// Signs with a key pair of its own and takes the bytes itself.
        case relay
        /// Signs with the key pair of the Tencent account; the bytes go to Tencent.
        case direct
    }

    /// Where the bytes of uploads are kept.
    package enum Storage: String, Sendable, CaseIterable {
        /// The data directory.
        case disk
        /// An S3-compatible store.
        case s3
    }

    /// The store; see `S3Settings`.
    package struct S3: Sendable, Equatable {
        /// `http(s)://host[:port]`; `nil` is AWS's in the region.
        package var endpoint: String?
        package var bucket: String?
        /// Further ones, for tokens that name one.
        package var otherBuckets: [String] = []
        package var region = "us-east-1"
        package var isPathStyle = false
        package var createsBucket = false
        package var accessKeyID: String?
        /// Without a pair, credentials are looked for as AWS's own tools do.
        package var secretAccessKey: Secret<String>?
        package var key = KeyTemplate.default
        package var sidePrefix = ".sluice/"
        package var storageClass: String?
        package var encryption = Encryption.none
        package var encryptionKey: String?
        /// Bytes.
        package var partSize: Int64 = 8 << 20
        package var maximumParts = 10_000
        package var needsEqualParts = false
        package var checksTags = true
        package var sendsContentMD5 = false
        package var parallelParts = 4
        /// Bytes in memory, of all uploads together.
        package var memory: Int64 = 128 << 20
        /// Bytes in files, of all uploads together.
        package var spool: Int64 = 1 << 30
        /// `nil` is `spool` in the data directory.
        package var spoolDirectory: String?
        package var retryTime = Duration.seconds(30)
        package var stallTimeout = Duration.seconds(20)
        package var completionWait = Duration.seconds(20)
        /// How long the store's URL is valid to which downloads are redirected; `nil` passes the bytes through.
        package var redirectFor: Duration?
        package var proxy: Secret<String>?
        /// PEM file; `nil` takes those of the system.
        package var authorities: String?

        package enum Encryption: String, Sendable, CaseIterable {
            case none
            /// With keys of the store (SSE-S3).
            case aes256
            /// With a key of AWS KMS.
            case kms
        }
    }

    /// The object endpoint, at which clients of S3 upload.
    package struct Object: Sendable, Equatable {
        /// `nil` for no such endpoint.
        package var listen: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 9000)
        /// `https://host[:port]`; `nil` is the host of the request with the port of the endpoint.
        package var publicURL: String?
        /// Made at the start if they are not there.
        package var buckets = ["uploads"]
        /// Names of hosts below which buckets have names of their own.
        package var domains: [String] = []
        /// As `CallbackHost` reads them.
        package var callbackHosts: [String] = []
        /// That signatures are made for, and clients are told.
        package var region = "us-east-1"
    }

    /// Whose users get credentials for the object endpoint by a token (OpenID Connect).
    package struct Identity: Sendable, Equatable {
        /// As tokens name it; `nil` for nobody.
        package var issuer: String?
        /// Of which a token must name one.
        package var audiences: [String] = []
        /// `nil` for what the issuer's own configuration names.
        package var keysURL: String?
        package var authorities: String?
        /// As clients name it; `nil` for the first of `object.buckets`.
        package var bucket: String?
        package var keyPrefix = IdentityKeyPrefix.default
        package var actions: Set<SessionAction> = [.upload]
        package var maximumBytes: Int64?
        package var maximumLifetime = Duration.seconds(12 * 3600)
    }

    /// When stored bytes are forced to stable storage; the names are those of the storage.
    package enum Durability: String, Sendable, CaseIterable {
        case acknowledged, completed, none
    }

    /// PostgreSQL for the state, instead of a file in the data directory.
    package struct Database: Sendable, Equatable {
        /// As libpq reads it; `nil` for the file.
        package var url: Secret<String>?
        package var connections = 8
        /// For each host of the URL; whole seconds.
        package var connectTimeout = Duration.seconds(5)
        /// For rows that others hold.
        package var lockTimeout = Duration.seconds(5)
        package var statementTimeout = Duration.seconds(30)
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
        /// Of blobs without a record.
        package var quarantine = Duration.seconds(7 * 86400)
        package var takeOverTimeout = Duration.seconds(10)
        package var interimResponses = InterimResponses.direct
        /// Upload URLs end with the API key that admitted the upload.
        package var endWithKey = false
        /// DELETE of an upload URL removes what is complete, too.
        package var deleteAfterCompletion = false
        package var goneAs = GoneAnswer.gone

        /// How tus answers for an upload that has ended.
        package enum GoneAnswer: String, Sendable, CaseIterable {
            /// 410
            case gone
            /// 404
            case notFound
        }

        package enum InterimResponses: String, Sendable, CaseIterable {
            /// To clients that no proxy stands before, as far as that can be told.
            case direct
            case always
            case never
        }
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
