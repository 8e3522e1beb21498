internal import HTTPWire
internal import UploadCore

/// Every setting there is, in the order of the documentation.
package enum SettingsTable {
    package static let all: [Setting] =
        general + database + s3 + object + identity + clouds + limits + timeouts + uploads + quotas + hooks + pull
        + web

    private static let general: [Setting] = [
        Setting("dataDir", \.dataDirectory, .path, "Directory for uploads, state and secrets; made if missing."),
        Setting("gateway.listen", \.gateway.listen, .listenAddress, "Address of the listener."),
        Setting(
            "gateway.loops",
            \.gateway.loops,
            .count(0...1024, meaning: "; 0 is one per core"),
            "Number of event loops."
        ),
        Setting(
            "publicURL",
            \.publicURL,
            optional: .publicURL,
            "URL under which clients reach the gateway; without it, it is taken from each request."
        ),
        Setting(
            "trustedProxies",
            \.trustedProxies,
            .ranges,
            "Proxies whose Forwarded and X-Forwarded fields are believed."
        ),
        Setting(
            "adminKey",
            \.adminKey,
            secret: .visible(minimum: 16),
            "API key with all scopes, instead of one that is made and printed at the first start."
        ),
        Setting(
            "masterSecret",
            \.masterSecret,
            secret: .masterSecret,
            "Secret from which all others are derived, instead of one that is kept in the data directory; of several the first makes what is new, and what was made with any of them is accepted."
        ),
        Setting("storage", \.storage, .choice, "Where the bytes of uploads are kept."),
        Setting("durability", \.durability, .choice, "When bytes are forced to stable storage."),
        Setting("tls.certificate", \.tls.certificate, optional: .path, "PEM file with the certificate and its chain."),
        Setting("tls.key", \.tls.key, optional: .path, "PEM file with the private key of the certificate."),
    ]

    private static let object: [Setting] = [
        Setting(
            "object.listen",
            \.object.listen,
            .listenAddressOrNone,
            "Address of the endpoint for clients of S3, OSS and COS."
        ),
        Setting(
            "object.publicURL",
            \.object.publicURL,
            optional: .origin,
            "URL at which clients reach that endpoint, for URLs that are signed for them; without it, the host that the request came to with the port of that endpoint."
        ),
        Setting(
            "object.buckets",
            \.object.buckets,
            .buckets,
            "Buckets of that endpoint that are made at the start if they are not there."
        ),
        Setting(
            "object.domains",
            \.object.domains,
            .texts("names of hosts separated by commas, such as s3.example.com") { ListenAddress($0 + ":0") != nil },
            "Hosts of that endpoint below which each bucket has a name of its own (bucket.s3.example.com)."
        ),
        Setting(
            "object.callbackHosts",
            \.object.callbackHosts,
            .texts("hosts separated by commas, such as app.example.com, 10.1.2.3:8000, *.example.com") {
                CallbackHost($0) != nil
            },
            "Hosts to which clients of OSS may have callbacks sent (x-oss-callback); without any, callbacks are refused."
        ),
        Setting(
            "object.region",
            \.object.region,
            .visible(minimum: 1),
            "Region for which clients of that endpoint sign."
        ),
    ]

    private static let database: [Setting] = [
        Setting(
            "database.url",
            \.database.url,
            secret: .databaseURL,
            "PostgreSQL that keeps the state, for one node or many, instead of a file in the data directory; needs masterSecret."
        ),
        Setting(
            "database.connections",
            \.database.connections,
            .count(1...1000),
            "Connections for calls, of each node; it has one more for messages between nodes."
        ),
        Setting(
            "database.connectTimeout",
            \.database.connectTimeout,
            .duration(.seconds(2) ... .seconds(600)),
            "For a connection to each host of the URL, unless the URL has connect_timeout; in whole seconds."
        ),
        Setting(
            "database.lockTimeout",
            \.database.lockTimeout,
            .duration(interval),
            "For rows that other calls hold; then the answer is 503."
        ),
        Setting(
            "database.statementTimeout",
            \.database.statementTimeout,
            .duration(interval),
            "For one statement; then the answer is 503."
        ),
    ]

    private static let limits: [Setting] = [
        Setting(
            "limits.requestLine",
            \.limits.requestLine,
            .bytes(256...(1 << 20)),
            "Longest request line; beyond it the answer is 414."
        ),
        Setting(
            "limits.headerBytes",
            \.limits.headerBytes,
            .bytes(1024...(16 << 20)),
            "Largest request head; beyond it the answer is 431."
        ),
        Setting(
            "limits.headerCount",
            \.limits.headerCount,
            .count(1...10000),
            "Most header fields of a request; beyond it the answer is 431."
        ),
        Setting(
            "limits.bodyBytes",
            \.limits.bodyBytes,
            .bytes(1024...(1 << 30)),
            "Largest content of a request that is no upload; beyond it the answer is 413."
        ),
        Setting(
            "limits.bodyRate",
            \.limits.bodyRate,
            .bytes(0...(1 << 30)),
            "Least bytes a second of a content, over all the time that was spent waiting for it, after timeouts.bodyProgress; 0 for no limit."
        ),
        Setting(
            "limits.uploadBytes",
            \.limits.uploadBytes,
            .bytes(1...Int64.max),
            "Largest upload; beyond it the answer is 413."
        ),
        Setting(
            "limits.connections",
            \.limits.connections,
            .count(1...1_000_000),
            "Most connections at the same time; more wait to be accepted."
        ),
        Setting(
            "limits.blockingThreads",
            \.limits.blockingThreads,
            .count(1...1024),
            "Threads for work on disk and state."
        ),
    ]

    private static let timeouts: [Setting] = [
        Setting("timeouts.head", \.timeouts.head, .duration(interval), "For the head of a request to arrive."),
        Setting("timeouts.idle", \.timeouts.idle, .duration(interval), "For the next request on a connection."),
        Setting(
            "timeouts.bodyProgress",
            \.timeouts.bodyProgress,
            .duration(interval),
            "Without a byte of the content arriving."
        ),
        Setting("timeouts.write", \.timeouts.write, .duration(interval), "Without a byte of an answer being taken."),
        Setting(
            "timeouts.request",
            \.timeouts.request,
            .duration(interval, zero: "no limit"),
            "For a whole request, with its content and its answer."
        ),
        Setting(
            "timeouts.shutdownGrace",
            \.timeouts.shutdownGrace,
            .duration(.zero ... .seconds(86400)),
            "For running requests to end at shutdown; then uploads are cut off, and what came is kept."
        ),
    ]

    private static let uploads: [Setting] = [
        Setting(
            "uploads.expireAfter",
            \.uploads.expireAfter,
            .duration(.seconds(1) ... .seconds(3650 * 86400), zero: "never"),
            "Removes an unfinished upload this long after its last append."
        ),
        Setting(
            "uploads.sweepEvery",
            \.uploads.sweepEvery,
            .duration(.seconds(1) ... .seconds(86400)),
            "How often expired uploads are looked for."
        ),
        Setting(
            "uploads.quarantine",
            \.uploads.quarantine,
            .duration(.zero ... .seconds(365 * 86400)),
            "How long bytes are kept of which there is no record."
        ),
        Setting(
            "uploads.takeOverTimeout",
            \.uploads.takeOverTimeout,
            .duration(.milliseconds(100) ... .seconds(600)),
            "How long a request waits for an older one to the same upload to stop."
        ),
        Setting(
            "uploads.interimResponses",
            \.uploads.interimResponses,
            .choice,
            "Who is sent answers of status 104, which not every proxy passes on: direct clients, all, or none."
        ),
        Setting(
            "uploads.endWithKey",
            \.uploads.endWithKey,
            .flag,
            "Whether upload URLs end when the API key that admitted the upload is revoked, and by POST /v1/revocations."
        ),
        Setting(
            "uploads.deleteAfterCompletion",
            \.uploads.deleteAfterCompletion,
            .flag,
            "Whether DELETE of an upload URL removes the upload after its completion, too."
        ),
        Setting(
            "uploads.goneAs",
            \.uploads.goneAs,
            .choice,
            "How tus answers for an upload that expired or was terminated: gone (410), or notFound (404), after which more clients create a new one."
        ),
    ]

    private static let quotas: [Setting] =
        [
            Setting(
                "quota.period",
                \.quota.period,
                .duration(.seconds(1) ... .seconds(366 * 86400)),
                "The time in which periodBytes and periodUploads count, from 1970-01-01T00:00:00Z on: a day begins at midnight, UTC."
            )
        ] + policy(.subject, "one app user (subject)")
        + policy(.key, "one API key and its tokens")

    /// What an account may do that has no policy of its own.
    private static func policy(_ kind: Account.Kind, _ whom: String) -> [Setting] {
        let prefix = "quota.\(kind.rawValue)"
        return [
            Setting(
                prefix + ".storedBytes",
                \.quota[kind].storedBytes,
                optional: .bytes(0...Int64.max),
                "Most bytes of media and open uploads of \(whom)."
            ),
            Setting(
                prefix + ".periodBytes",
                \.quota[kind].periodBytes,
                optional: .bytes(0...Int64.max),
                "Most bytes of the uploads that begin in a period, of \(whom)."
            ),
            Setting(
                prefix + ".openUploads",
                \.quota[kind].openUploads,
                optional: .count(0...Int64.max),
                "Most uploads that are open at the same time, of \(whom)."
            ),
            Setting(
                prefix + ".periodUploads",
                \.quota[kind].periodUploads,
                optional: .count(0...Int64.max),
                "Most uploads that begin in a period, of \(whom)."
            ),
            Setting(
                prefix + ".uploadBytes",
                \.quota[kind].uploadBytes,
                optional: .bytes(0...Int64.max),
                "Largest upload of \(whom)."
            ),
            Setting(
                prefix + ".contentTypes",
                \.quota[kind].contentTypes,
                .texts("media types separated by commas, such as video/mp4, image/*", MediaTypeText.isPattern),
                "Media types that uploads of \(whom) may declare; without it all."
            ),
            Setting(
                prefix + ".extensions",
                \.quota[kind].extensions,
                .texts(
                    "extensions separated by commas, in lower case and without the dot, such as mp4, mov",
                    FileExtensionText.isValid
                ),
                "Extensions that file names of \(whom) may have; without it all."
            ),
            Setting(
                prefix + ".checksContent",
                \.quota[kind].checksContent,
                .flag,
                "Whether the first bytes of files of \(whom) must fit the declared media type and contentTypes."
            ),
        ]
    }

    private static let hooks: [Setting] = [
        Setting(
            "hooks.url",
            \.hooks.url,
            optional: .hookURL,
            "Where the app is told and asked about uploads, with the hooks of tusd; without it there are none."
        ),
        Setting("hooks.events", \.hooks.events, .names(), "The hooks that are sent."),
        Setting(
            "hooks.secret",
            \.hooks.secret,
            secret: .hookSecret,
            "Key that hooks are signed with (Standard Webhooks); without it one is derived: `sluice credentials webhooks`."
        ),
        Setting("hooks.timeout", \.hooks.timeout, .duration(interval), "For one hook, until its answer has come."),
        Setting(
            "hooks.onFailure",
            \.hooks.onFailure,
            .choice,
            "What happens when a blocking hook (pre-create, pre-finish, pre-terminate) can not be asked."
        ),
        Setting(
            "hooks.attempts",
            \.hooks.attempts,
            .count(1...1000),
            "How often an event is told before it is given up: after 1, 2, 4 … seconds, and at most an hour later."
        ),
        Setting("hooks.concurrency", \.hooks.concurrency, .count(1...1000), "Hooks that are sent at the same time."),
        Setting(
            "hooks.progressEvery",
            \.hooks.progressEvery,
            .duration(.milliseconds(100) ... .seconds(3600)),
            "How often post-receive tells of an upload that gets bytes."
        ),
        Setting(
            "hooks.forwardHeaders",
            \.hooks.forwardHeaders,
            .texts(
                "names of header fields separated by commas, such as Cookie, X-Tenant",
                { FieldName($0) != nil }
            ),
            "Fields of the client's request that blocking hooks get as fields too, credentials included."
        ),
    ]

    private static let pull: [Setting] = [
        Setting("pull.enabled", \.pull.isEnabled, .flag, "Whether the gateway fetches from URLs that apps tell it."),
        Setting("pull.concurrency", \.pull.concurrency, .count(1...256), "How many it fetches at the same time."),
        Setting(
            "pull.allow",
            \.pull.allow,
            .ranges,
            "Addresses that are not public and may be fetched from all the same."
        ),
        Setting("pull.maximumRedirects", \.pull.maximumRedirects, .count(0...50), "Most redirects that are followed."),
        Setting(
            "pull.connectTimeout",
            \.pull.connectTimeout,
            .duration(.milliseconds(100) ... .seconds(600)),
            "For name look-up, TCP and TLS."
        ),
        Setting(
            "pull.timeout",
            \.pull.timeout,
            .duration(.seconds(1) ... .seconds(86400)),
            "While fewer bytes come than limits.bodyRate, or none; in whole seconds."
        ),
        Setting(
            "pull.attempts",
            \.pull.attempts,
            .count(1...1000),
            "Failures in a row, without a new byte, after which it is given up."
        ),
        Setting(
            "pull.retryDelay",
            \.pull.retryDelay,
            .duration(.milliseconds(10) ... .seconds(3600)),
            "Before the second attempt; doubled for each further failure, up to 10 minutes."
        ),
        Setting(
            "pull.authorities",
            \.pull.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted, instead of those of the system."
        ),
    ]

    private static let web: [Setting] = [
        Setting("cors.enabled", \.cors.isEnabled, .flag, "Whether web pages of other origins may use the gateway."),
        Setting("cors.origins", \.cors.origins, .origins, "The pages that may."),
        Setting(
            "metrics.access",
            \.metrics.access,
            .choice,
            "Who may read /metrics: holders of an API key with scope read, or anybody."
        ),
        Setting("log.level", \.log.level, .choice, "The least important messages that are logged."),
        Setting("log.format", \.log.format, .choice, "One JSON object or one line of text for each message."),
    ]

    private static let interval = Duration.milliseconds(10)...Duration.seconds(7 * 86400)
}
