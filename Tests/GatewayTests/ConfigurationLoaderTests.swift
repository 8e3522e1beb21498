import Foundation
import Gateway
import GatewayKit
import SettingsKit
import Testing

@Suite("Configuration: sources and precedence", .timeLimit(.minutes(10)))
struct ConfigurationLoaderTests {
    /// The problems of a configuration that must be refused.
    static func problems(
        flags: [String: String] = [:],
        environment: [String: String] = [:],
        file: String? = nil
    ) -> [SettingsProblem] {
        do {
            _ = try GatewaySettings.catalog.load(arguments: flags, environment: environment, file: file)
            return []
        } catch {
            return error.problems
        }
    }

    @Test("without any settings, everything has its default")
    func defaults() throws {
        let loaded = try GatewaySettings.catalog.load(environment: ["PATH": "/bin", "HOME": "/"])
        #expect(loaded.values == Settings())
        #expect(loaded.values.general.dataDirectory == "./data")
        #expect(loaded.values.general.gateway.listen == ListenAddress(host: "127.0.0.1", port: 8080))
        #expect(loaded.values.limits.requestLine == 32_768)
        #expect(loaded.values.limits.uploadBytes == 1_099_511_627_776)
        #expect(loaded.values.timeouts.request == nil)
        #expect(loaded.values.uploads.expireAfter == .seconds(86400))
        #expect(loaded.values.general.adminKey == nil)
        #expect(GatewaySettings.catalog.settings.allSatisfy { loaded.source(of: $0.key) == .standard })
    }

    @Test("file, environment and flags override each other in this order")
    func precedence() throws {
        let scratch = try ConfigurationScratch()
        let path = try scratch.file(
            "sluice.yaml",
            """
            # A comment
            gateway:
              listen: 127.0.0.1:1
              loops: 3
            durability: none
            timeouts.head: 1s
            """
        )
        let loaded = try GatewaySettings.catalog.load(
            arguments: ["gateway-listen": "127.0.0.1:3"],
            environment: ["SLUICE_GATEWAY_LISTEN": "127.0.0.1:2", "SLUICE_DURABILITY": "completed"],
            file: path
        )
        #expect(loaded.values.general.gateway.listen.port == 3)
        #expect(loaded.values.general.gateway.loops == 3)
        #expect(loaded.values.general.durability == .completed)
        #expect(loaded.values.timeouts.head == .seconds(1))
        #expect(loaded.source(of: "gateway.listen") == .flag(name: "--gateway-listen"))
        #expect(loaded.source(of: "gateway.loops") == .file(path: path, line: 4))
        #expect(loaded.source(of: "durability") == .environment(name: "SLUICE_DURABILITY"))
        #expect(loaded.source(of: "timeouts.head") == .file(path: path, line: 6))
        #expect(loaded.source(of: "timeouts.idle") == .standard)
    }

    @Test("every setting can be set by environment and by flag")
    func everySettingHasNames() throws {
        let scratch = try ConfigurationScratch()
        for setting in GatewaySettings.catalog.settings {
            let value = try #require(Self.example(of: setting), "no example for \(setting.key)")
            var environment = Self.companions(of: setting.key)
            environment[setting.environmentName] = value
            let byEnvironment = try GatewaySettings.catalog.load(environment: environment)
            #expect(byEnvironment.source(of: setting.key) == .environment(name: setting.environmentName))
            #expect(byEnvironment.values != Settings(), "\(setting.key)")

            environment[setting.environmentName] = nil
            let given = setting.isSecret ? try scratch.file("secret", value) : value
            let byFlag = try GatewaySettings.catalog.load(arguments: [setting.flag: given], environment: environment)
            #expect(byFlag.values == byEnvironment.values, "\(setting.key)")
        }
        #expect(Set(Self.examples.keys).isSubset(of: GatewaySettings.catalog.settings.map(\.key)))
    }

    /// A value other than the default: the first one that the setting takes, if `examples` has none.
    private static func example(of setting: Setting) -> String? {
        if let example = examples[setting.key] { return example }
        let candidates = setting.allowed.split(separator: ", ").map(String.init) + ["9", "9m", "https://a.example/b"]
        return candidates.first { candidate in
            guard candidate != setting.defaultText else { return false }
            var environment = companions(of: setting.key)
            environment[setting.environmentName] = candidate
            return (try? GatewaySettings.catalog.load(environment: environment)).map { $0.values != Settings() }
                ?? false
        }
    }

    private static let examples = [
        "acme.domains": "uploads.example.com", "acme.directory": "https://ca.example/dir",
        "acme.email": "ops@example.com", "acme.authorities": "/ca.pem", "acme.challenge": "http-01",
        "acme.httpListen": "127.0.0.1:8081", "acme.eabKeyId": "kid", "acme.eabKey": "0123456789abcdef-_ABCD",
        "tls.clientAuthorities": "a.pem", "dataDir": "/var/lib/sluice", "gateway.listen": "[::1]:0",
        "gateway.loops": "2",
        "gateway.basePath": "/up",
        "publicURL": "https://up.example/x", "trustedProxies": "10.0.0.0/8", "adminKey": "0123456789abcdef",
        "masterSecret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "durability": "none",
        "storage": "s3", "s3.endpoint": "https://s3.example:9000", "s3.bucket": "abc", "s3.otherBuckets": "def, ghi",
        "object.listen": "none", "object.buckets": "abc, def", "object.domains": "s3.example.com",
        "object.callbackHosts": "app.example.com, *.apps.example.com:8443",
        "object.publicRead": "media, media-2/public/", "object.publicMaxAge": "5m",
        "object.region": "eu-1", "object.publicURL": "https://s3.example.com",
        "identity.issuer": "https://login.example", "identity.audience": "app, web",
        "identity.jwksUrl": "https://login.example/keys", "identity.authorities": "/ca.pem", "identity.bucket": "abc",
        "identity.keyPrefix": "u/{sub}/", "identity.actions": "upload, read", "identity.maximumBytes": "1GiB",
        "identity.maximumLifetime": "1h",
        "jwt.issuers": #"[{"audience":"app","issuer":"https://login.example"}]"#,
        "s3.region": "eu-1",
        "s3.pathStyle": "true", "s3.createBucket": "true", "s3.accessKeyId": "id", "s3.secretAccessKey": "secret",
        "s3.key": "u/{subject}/{yyyy}/{mm}/{id}{ext}", "s3.tailPrefix": "side/", "s3.storageClass": "STANDARD_IA",
        "s3.encryption": "kms", "s3.encryptionKey": "k", "s3.partSize": "16MiB", "s3.maximumParts": "1000",
        "s3.equalParts": "true", "s3.checkTags": "false", "s3.contentMD5": "true",
        "s3.parallelParts": "8", "s3.memory": "1GiB", "s3.spool": "0",
        "s3.spoolDir": "/spool", "s3.retryTime": "5s", "s3.stallTimeout": "4s",
        "s3.completionWait": "3s", "s3.redirectFor": "5m",
        "s3.proxy": "http://proxy:3128", "s3.authorities": "/ca.pem",
        "database.url": "postgres://u:p@db/sluice", "database.connections": "3", "database.connectTimeout": "3s",
        "database.lockTimeout": "1s", "database.statementTimeout": "1m",
        "aws.buckets": "media", "aws.accessKeyId": "AKIA1", "aws.secretAccessKey": "secret", "aws.region": "eu-west-1",
        "aws.roleArn": "arn:aws:iam::123456789012:role/up", "aws.externalId": "id",
        "aws.stsEndpoint": "https://sts.example", "aws.s3Endpoint": "https://s3.example", "aws.pathStyle": "true",
        "aliyun.buckets": "media", "aliyun.accessKeyId": "LTAI1", "aliyun.accessKeySecret": "secret",
        "aliyun.region": "cn-shanghai", "aliyun.roleArn": "acs:ram::1234567890123456:role/up",
        "aliyun.stsEndpoint": "https://sts.example", "aliyun.ossEndpoint": "https://oss.example",
        "aliyun.vod.bucket": "films-1", "aliyun.vod.region": "cn-beijing", "aliyun.vod.appIds": "app-1000001, app-2",
        "aliyun.vod.mode": "direct", "aliyun.vod.endpoint": "https://vod.example", "aliyun.vod.authLifetime": "10m",
        "aliyun.vod.signature": "v1", "aliyun.vod.workflows": "flow-1, flow-2",
        "aliyun.vod.uploadLifetime": "7d", "vimeo.uploadLifetime": "3d", "vimeo.callsPerMinute": "9",
        "vimeo.mode": "direct", "vimeo.accessToken": "token", "vimeo.endpoint": "https://vimeo.example",
        "vimeo.pollInterval": "20s",
        "tencent.region": "ap-guangzhou", "tencent.buckets": "media-1250000000",
        "tencent.stsEndpoint": "https://sts.example", "tencent.cosEndpoint": "https://cos.example",
        "tencent.endpoint": "https://vod2.qcloud.com", "tencent.endpointTimeout": "7s",
        "tencent.bucket": "films", "tencent.appId": "1", "tencent.vodAppId": "2", "tencent.domain": "vod.example",
        "tencent.cosDomain": "cos.example:9000", "tencent.mediaURL": "https://cdn.example/films",
        "tencent.sessionLifetime": "2h", "tencent.certificateLifetime": "1h", "tencent.appliesPerSecond": "5",
        "tencent.subApplications": "3, 4", "tencent.procedures": "LongVideoPreset", "tencent.events": "pull",
        "tencent.callbackURL": "https://app.example/vod",
        "tls.certificate": "c.pem", "tls.key": "k.pem", "tencent.mode": "direct", "tencent.secretId": "AKID1",
        "tencent.secretKey": "key", "limits.requestLine": "4KiB", "limits.headerBytes": "128KiB",
        "limits.headerCount": "50", "limits.bodyBytes": "2MiB", "limits.bodyRate": "1KiB", "limits.uploadBytes": "10MB",
        "limits.formFiles": "5", "limits.connections": "10",
        "limits.address.requestsPerSecond": "7", "limits.address.burst": "8", "limits.address.uploads": "9",
        "limits.address.connections": "6", "limits.address.bytesPerSecond": "1MiB",
        "limits.address.exempt": "192.0.2.0/24",
        "limits.key.requestsPerSecond": "5", "limits.key.burst": "6", "limits.key.uploads": "7",
        "limits.key.bytesPerSecond": "2MiB", "limits.subject.requestsPerSecond": "8", "limits.subject.burst": "9",
        "limits.subject.uploads": "10", "limits.subject.bytesPerSecond": "3MiB", "limits.blockingThreads": "4",
        "limits.clockSkew": "2m",
        "timeouts.head": "1s", "timeouts.idle": "1m",
        "timeouts.bodyProgress": "500ms", "timeouts.write": "2s", "timeouts.request": "1h",
        "timeouts.drain": "10s", "timeouts.shutdownGrace": "0", "uploads.expireAfter": "7d", "uploads.sweepEvery": "5s",
        "uploads.quarantine": "2d",
        "uploads.takeOverTimeout": "1s", "uploads.recent": "7", "uploads.recentFor": "3s",
        "uploads.interimResponses": "never",
        "uploads.revokeWithKey": "true", "uploads.deleteAfterCompletion": "true", "uploads.goneStatus": "notFound",
        "pull.enabled": "false",
        "pull.concurrency": "2",
        "pull.allow": "10.0.0.0/8, fd00::/8", "pull.maximumRedirects": "0", "pull.connectTimeout": "2s",
        "pull.timeout": "3s", "pull.attempts": "2", "pull.retryDelay": "10ms", "pull.authorities": "/ca.pem",
        "cors.enabled": "false", "cors.origins": "https://a.example",
        "log.level": "debug", "log.format": "text", "metrics.access": "open",
        "quota.period": "7d", "quota.subject.storedBytes": "1GiB", "quota.subject.periodBytes": "2GiB",
        "quota.subject.openUploads": "3", "quota.subject.periodUploads": "4", "quota.subject.uploadBytes": "5MiB",
        "quota.subject.contentTypes": "video/*", "quota.subject.extensions": "mp4",
        "quota.subject.checksContent": "true",
        "quota.key.storedBytes": "1GiB", "quota.key.periodBytes": "2GiB", "quota.key.openUploads": "3",
        "quota.key.periodUploads": "4", "quota.key.uploadBytes": "5MiB", "quota.key.contentTypes": "image/png, video/*",
        "quota.key.extensions": "mp4, mov", "quota.key.checksContent": "true", "hooks.url": "https://app.example/hooks",
        "hooks.events": "pre-create, post-finish", "hooks.secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
        "hooks.timeout": "1s", "hooks.onFailure": "allow", "hooks.attempts": "3", "hooks.concurrency": "4",
        "tracing.endpoint": "http://127.0.0.1:4318", "tracing.sampleRatio": "0.05",
        "tracing.headers": "authorization=Bearer%20abc, x-tenant=a", "tracing.serviceName": "uploads",
        "hooks.directory": "/etc/sluice/hooks", "hooks.progressEvery": "1s", "hooks.forwardHeaders": "Cookie, X-Tenant",
    ]

    /// Settings that this one requires.
    private static func companions(of key: String) -> [String: String] {
        switch key {
        case "database.url": ["SLUICE_MASTER_SECRET": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
        case "gateway.proxyProtocol", "object.proxyProtocol": ["SLUICE_TRUSTED_PROXIES": "unix:"]
        case "acme.email", "acme.authorities": ["SLUICE_ACME_DOMAINS": "uploads.example.com"]
        case "acme.eabKeyId":
            ["SLUICE_ACME_DOMAINS": "uploads.example.com", "SLUICE_ACME_EAB_KEY": "0123456789abcdef-_ABCD"]
        case "acme.eabKey": ["SLUICE_ACME_DOMAINS": "uploads.example.com", "SLUICE_ACME_EAB_KEY_ID": "kid"]
        case "tls.certificate": ["SLUICE_TLS_KEY": "k.pem"]
        case "tls.clientAuthorities": ["SLUICE_TLS_CERTIFICATE": "c.pem", "SLUICE_TLS_KEY": "k.pem"]
        case "tls.key": ["SLUICE_TLS_CERTIFICATE": "c.pem"]
        case "tencent.secretId": ["SLUICE_TENCENT_SECRET_KEY": "key"]
        case "tencent.secretKey": ["SLUICE_TENCENT_SECRET_ID": "AKID1"]
        case "tencent.mode": ["SLUICE_TENCENT_SECRET_ID": "AKID1", "SLUICE_TENCENT_SECRET_KEY": "key"]
        case "tencent.endpoint":
            [
                "SLUICE_TENCENT_MODE": "direct", "SLUICE_TENCENT_SECRET_ID": "AKID1",
                "SLUICE_TENCENT_SECRET_KEY": "key",
            ]
        case "identity.issuer": ["SLUICE_IDENTITY_AUDIENCE": "app"]
        case "identity.audience": ["SLUICE_IDENTITY_ISSUER": "https://login.example"]
        case "storage": ["SLUICE_S3_BUCKET": "abc"]
        case "aws.accessKeyId": ["SLUICE_AWS_SECRET_ACCESS_KEY": "secret"]
        case "aws.secretAccessKey": ["SLUICE_AWS_ACCESS_KEY_ID": "id"]
        case "aws.externalId": ["SLUICE_AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/up"]
        case "aliyun.vod.mode": ["SLUICE_ALIYUN_ACCESS_KEY_ID": "id", "SLUICE_ALIYUN_ACCESS_KEY_SECRET": "secret"]
        case "aliyun.vod.endpoint":
            [
                "SLUICE_ALIYUN_VOD_MODE": "direct", "SLUICE_ALIYUN_ACCESS_KEY_ID": "id",
                "SLUICE_ALIYUN_ACCESS_KEY_SECRET": "secret",
            ]
        case "aliyun.accessKeyId": ["SLUICE_ALIYUN_ACCESS_KEY_SECRET": "secret"]
        case "aliyun.accessKeySecret": ["SLUICE_ALIYUN_ACCESS_KEY_ID": "id"]
        case "vimeo.mode": ["SLUICE_VIMEO_ACCESS_TOKEN": "token"]
        case "vimeo.accessToken": ["SLUICE_VIMEO_MODE": "direct"]
        case "vimeo.endpoint": ["SLUICE_VIMEO_MODE": "direct", "SLUICE_VIMEO_ACCESS_TOKEN": "token"]
        case "s3.accessKeyId": ["SLUICE_S3_SECRET_ACCESS_KEY": "secret"]
        case "s3.secretAccessKey": ["SLUICE_S3_ACCESS_KEY_ID": "id"]
        default: [:]
        }
    }

    @Test("the names that containers and scripts use stay the same")
    func names() {
        let names = Dictionary(
            uniqueKeysWithValues: GatewaySettings.catalog.settings.map { ($0.key, $0.environmentName) }
        )
        #expect(names["dataDir"] == "SLUICE_DATA_DIR")
        #expect(names["gateway.listen"] == "SLUICE_GATEWAY_LISTEN")
        #expect(names["publicURL"] == "SLUICE_PUBLIC_URL")
        #expect(names["database.url"] == "SLUICE_DATABASE_URL")
        #expect(names["adminKey"] == "SLUICE_ADMIN_KEY")
        #expect(names["tencent.secretId"] == "SLUICE_TENCENT_SECRET_ID")
        #expect(names["tencent.secretKey"] == "SLUICE_TENCENT_SECRET_KEY")
        #expect(names["tencent.mode"] == "SLUICE_TENCENT_MODE")
        #expect(names["limits.requestLine"] == "SLUICE_LIMITS_REQUEST_LINE")
        #expect(names["uploads.takeOverTimeout"] == "SLUICE_UPLOADS_TAKE_OVER_TIMEOUT")
        #expect(GatewaySettings.catalog.settings.first { $0.key == "publicURL" }?.flag == "--public-url")
        #expect(GatewaySettings.catalog.settings.first { $0.key == "adminKey" }?.flag == "--admin-key-file")
        #expect(
            GatewaySettings.catalog.settings.first { $0.key == "adminKey" }?.environmentFileName
                == "SLUICE_ADMIN_KEY_FILE"
        )
        #expect(Set(names.values).count == GatewaySettings.catalog.settings.count)
        #expect(Set(GatewaySettings.catalog.settings.map(\.flag)).count == GatewaySettings.catalog.settings.count)
    }

    @Test("all problems are reported at once, each with key, source, value and what is allowed")
    func allProblemsAtOnce() throws {
        let scratch = try ConfigurationScratch()
        let path = try scratch.file(
            "sluice.yaml",
            """
            durability: sometimes
            gatewy:
              listen: x
            limits:
              headerCount: many
            """
        )
        let problems = Self.problems(
            flags: ["log-level": "loud"],
            environment: ["SLUICE_TIMEOUTS_HEAD": "15", "SLUICE_GATEWAY_LISTE": "x", "SLUICE_ADMIN_KEY": "short"],
            file: path
        )
        #expect(
            problems.map(\.key) == [
                "gatewy", "SLUICE_GATEWAY_LISTE", "durability", "limits.headerCount", "adminKey", "timeouts.head",
                "log.level",
            ]
        )
        #expect(problems[2].source == .file(path: path, line: 1))
        #expect(problems[2].value == "sometimes")
        #expect(problems[2].message == "allowed: acknowledged, completed, none")
        #expect(problems[3].source == .file(path: path, line: 5))
        #expect(problems[3].message.contains("1 to 10000"))
        #expect(problems[4].value == "<redacted>")
        #expect(problems[4].message.contains("at least 16"))
        #expect(problems[5].description.contains("environment variable SLUICE_TIMEOUTS_HEAD"))
        #expect(problems[5].description.contains("\"15\""))
        #expect(problems[5].message.contains("500ms"))
        #expect(problems[6].source == .flag(name: "--log-level"))
        let text = SettingsProblems(problems: problems).description
        #expect(text.split(separator: "\n").count == problems.count)
        #expect(!text.contains("short"))
    }

    @Test("a bad value is a problem even where a good one would override it")
    func badValueThatLoses() {
        let problems = Self.problems(
            flags: ["gateway-listen": "127.0.0.1:1"],
            environment: ["SLUICE_GATEWAY_LISTEN": "nowhere"]
        )
        #expect(problems.map(\.key) == ["gateway.listen"])
    }

    @Test("an unknown variable is a problem that suggests the right name")
    func unknownVariable() {
        let problems = Self.problems(environment: ["SLUICE_DATADIR": "x", "SLUICE_ZZZZZZZZZZZZZZ": "y"])
        #expect(problems.map(\.key) == ["SLUICE_DATADIR", "SLUICE_ZZZZZZZZZZZZZZ"])
        #expect(problems.first?.message == "there is no such variable; did you mean SLUICE_DATA_DIR?")
        #expect(problems.last?.message == "there is no such variable")
    }

    @Test("variables that Kubernetes sets for a service named sluice are no problem")
    func kubernetesServiceLinks() throws {
        _ = try GatewaySettings.catalog.load(environment: [
            "SLUICE_SERVICE_HOST": "10.0.0.1", "SLUICE_SERVICE_PORT": "80", "SLUICE_SERVICE_PORT_HTTP": "80",
            "SLUICE_PORT": "tcp://10.0.0.1:80", "SLUICE_PORT_80_TCP": "tcp://10.0.0.1:80",
            "SLUICE_PORT_80_TCP_PROTO": "tcp", "SLUICE_PORT_80_TCP_PORT": "80", "SLUICE_PORT_80_TCP_ADDR": "10.0.0.1",
            "SLUICE_GATEWAY_SERVICE_HOST": "10.0.0.1", "SLUICE_GATEWAY_PORT_8080_TCP_ADDR": "10.0.0.1",
        ])
        #expect(Self.problems(environment: ["SLUICE_PORT": "80"]).count == 1)
    }

    @Test("an empty variable is a problem, except for a list")
    func emptyVariable() throws {
        let problems = Self.problems(environment: ["SLUICE_PUBLIC_URL": "", "SLUICE_CORS_ORIGINS": ""])
        #expect(problems.map(\.key) == ["cors.origins", "publicURL"])
        #expect(problems.allSatisfy { $0.message.hasPrefix("is empty; allowed: ") })
        #expect(
            try GatewaySettings.catalog.load(environment: ["SLUICE_TRUSTED_PROXIES": ""]).values.general.trustedProxies
                == []
        )
    }

    // MARK: Rules between settings

    @Test(
        "settings that need each other are demanded",
        arguments: [
            (["SLUICE_TLS_KEY": "k"], ["tls.certificate"]),
            (["SLUICE_TLS_CERTIFICATE": "c"], ["tls.key"]),
            (["SLUICE_TENCENT_SECRET_ID": "a"], ["tencent.secretKey"]),
            (["SLUICE_TENCENT_SECRET_KEY": "a"], ["tencent.secretId"]),
            (["SLUICE_AWS_ACCESS_KEY_ID": "a"], ["aws.secretAccessKey"]),
            (["SLUICE_AWS_EXTERNAL_ID": "id"], ["aws.roleArn"]),
            (["SLUICE_ALIYUN_ACCESS_KEY_SECRET": "a"], ["aliyun.accessKeyId"]),
            (["SLUICE_TENCENT_MODE": "direct"], ["tencent.secretId", "tencent.secretKey"]),
            (["SLUICE_TENCENT_MODE": "direct", "SLUICE_TENCENT_SECRET_ID": "a"], ["tencent.secretKey"]),
            (["SLUICE_TENCENT_ENDPOINT": "https://vod2.qcloud.com"], ["tencent.mode"]),
            (["SLUICE_LIMITS_HEADER_BYTES": "4KiB"], ["limits.headerBytes"]),
            // An invalid value is not also reported as missing.
            (
                ["SLUICE_TENCENT_MODE": "direct", "SLUICE_TENCENT_SECRET_ID": "a b", "SLUICE_TENCENT_SECRET_KEY": "k"],
                ["tencent.secretId"]
            ),
        ] as [([String: String], [String])]
    )
    func rules(environment: [String: String], keys: [String]) {
        #expect(Self.problems(environment: environment).map(\.key) == keys)
    }

    // MARK: Flags

    @Test("flags are read with a space or an equals sign")
    func readsFlags() throws {
        let values = try GatewaySettings.catalog.parse([
            "--gateway-listen", "[::]:1", "--log-level=debug", "--data-dir=a=b",
        ])
        #expect(values == ["gateway-listen": "[::]:1", "log-level": "debug", "data-dir": "a=b"])
        let loaded = try GatewaySettings.catalog.load(arguments: values)
        #expect(loaded.values.general.dataDirectory == "a=b")
    }

    @Test("wrong flags are all reported")
    func wrongFlags() throws {
        let arguments = [
            "--gateway-liste=1", "stray", "--log-level=info", "--log-level=debug", "--admin-key=x",
            "--admin-key:hidden", "--data-dir",
        ]
        let thrown = #expect(throws: SettingsProblems.self) { try GatewaySettings.catalog.parse(arguments) }
        let problems = try #require(thrown).problems
        #expect(
            problems.map(\.key) == [
                "--gateway-liste", "argument 2", "--log-level", "--admin-key", "--admin-key", "--data-dir",
            ]
        )
        // Each of them can be a secret in the wrong place.
        #expect(!"\(problems)".contains("stray") && !"\(problems)".contains("hidden"))
        #expect(problems[0].message.contains("did you mean --gateway-listen?"))
        #expect(problems[2].message == "set a second time")
        #expect(problems[3].message.contains("--admin-key-file"))
        #expect(problems[3].message.contains("SLUICE_ADMIN_KEY"))
        #expect(problems[5].message == "has no value")
        #expect(Self.problems(flags: ["nonsense": "1"]).map(\.key) == ["--nonsense"])
    }
}
