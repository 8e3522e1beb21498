import Foundation
import Gateway
import GatewayKit
import SettingsKit
import Testing
import Transport

@Suite("Configuration: files and secrets", .timeLimit(.minutes(10)))
struct ConfigurationFileTests {
    private func problems(_ yaml: String) throws -> [SettingsProblem] {
        let scratch = try ConfigurationScratch()
        return ConfigurationLoaderTests.problems(file: try scratch.file("sluice.yaml", yaml))
    }

    private func load(_ yaml: String) throws -> Settings {
        let scratch = try ConfigurationScratch()
        return try GatewaySettings.catalog.load(file: try scratch.file("sluice.yaml", yaml)).values
    }

    @Test(
        "an empty file and empty sections set nothing",
        arguments: ["", "# nothing\n", "---\n", "gateway:\nlog: ~\n", "{}"]
    )
    func emptyFile(yaml: String) throws {
        #expect(try load(yaml) == Settings())
    }

    @Test("lists may be written as text or as a sequence")
    func lists() throws {
        let expected = try [#require(PeerRange("10.0.0.0/8")), #require(PeerRange("::1"))]
        #expect(try load("trustedProxies: 10.0.0.0/8, ::1").general.trustedProxies == expected)
        #expect(try load("trustedProxies:\n  - 10.0.0.0/8\n  - '::1'\n").general.trustedProxies == expected)
        #expect(try load("trustedProxies: []").general.trustedProxies == [])
        #expect(
            try load("cors: {origins: [https://a.example, 'http://B.example:80']}").cors.origins
                == .only(["https://a.example", "http://b.example"])
        )
        #expect(try load("cors.origins: '*'").cors.origins == .any)
    }

    struct Bad: Sendable {
        var yaml: String
        var key: String
        var line: Int?
        var message: String
    }

    @Test(
        "a wrong file is refused with key and line",
        arguments: [
            Bad(yaml: "a\n", key: "config", line: 1, message: "keys and values"),
            Bad(yaml: "- a\n", key: "config", line: 1, message: "keys and values"),
            Bad(yaml: "log: [a\n", key: "config", line: 2, message: "not valid YAML"),
            Bad(yaml: "a: b\n\tc: d\n", key: "config", line: 2, message: "not valid YAML"),
            Bad(yaml: "log.level: info\n---\nlog.level: debug\n", key: "config", line: 2, message: "not valid YAML"),
            Bad(yaml: "dataDir: a\ndataDir: b\n", key: "config", line: 1, message: "repeated key dataDir"),
            Bad(yaml: "log:\n  level: info\nlog.level: debug\n", key: "log.level", line: 3, message: "a second time"),
            Bad(yaml: "\nlogs:\n  level: info\n", key: "logs", line: 2, message: "there is no such setting"),
            Bad(yaml: "log:\n  levl: info\n", key: "log.levl", line: 2, message: "did you mean log.level?"),
            Bad(yaml: "datadir: x\n", key: "datadir", line: 1, message: "did you mean dataDir?"),
            Bad(yaml: "log: info\n", key: "log", line: 1, message: "this is a section"),
            Bad(yaml: "log:\n  - level\n", key: "log", line: 1, message: "this is a section"),
            Bad(yaml: "log:\n  level:\n", key: "log.level", line: 2, message: "has no value"),
            Bad(yaml: "log:\n  level: null\n", key: "log.level", line: 2, message: "has no value"),
            Bad(yaml: "log:\n  level: {a: b}\n", key: "log.level", line: 2, message: "a plain value is expected"),
            Bad(yaml: "log:\n  level: [info]\n", key: "log.level", line: 2, message: "a plain value is expected"),
            Bad(yaml: "trustedProxies: [[a]]\n", key: "trustedProxies", line: 1, message: "a list of plain values"),
            Bad(yaml: "trustedProxies: ['a,b']\n", key: "trustedProxies", line: 1, message: "a list of plain values"),
            Bad(yaml: "cors:\n  enabled: yes\n", key: "cors.enabled", line: 2, message: "allowed: true, false"),
            Bad(yaml: "? [a]\n: b\n", key: "?", line: 1, message: "plain name"),
            Bad(yaml: "adminKeyFile: ''\n", key: "adminKeyFile", line: 1, message: "path of a file"),
            Bad(yaml: "adminKey:\n", key: "adminKey", line: 1, message: "has no value"),
            Bad(yaml: "tls.keys: x\n", key: "tls.keys", line: 1, message: "did you mean tls.key?"),
        ]
    )
    func wrongFile(example: Bad) throws {
        let problems = try problems(example.yaml)
        let problem = try #require(problems.first)
        #expect(problems.count == 1)
        #expect(problem.key == example.key)
        guard case .file(_, let line) = problem.source else {
            Issue.record("\(problem.source)")
            return
        }
        #expect(line == example.line)
        #expect(problem.message.contains(example.message), "\(problem.message)")
    }

    @Test("a file that cannot be read is refused")
    func unreadableFile() throws {
        let scratch = try ConfigurationScratch()
        let missing = ConfigurationLoaderTests.problems(file: scratch.path + "/missing.yaml")
        #expect(missing.map(\.message) == ["there is no such file"])
        #expect(
            ConfigurationLoaderTests.problems(file: scratch.path).map(\.message) == ["this is a directory, not a file"]
        )
        let binary = try scratch.file("binary.yaml", bytes: [0xFF, 0xFE])
        #expect(ConfigurationLoaderTests.problems(file: binary).map(\.message) == ["the file is not UTF-8"])
        let large = try scratch.file("large.yaml", String(repeating: "#", count: (1 << 20) + 1))
        #expect(ConfigurationLoaderTests.problems(file: large).first?.message.contains("larger than") == true)
    }

    @Test("SLUICE_CONFIG names the file, and an explicit path overrides it")
    func fileFromEnvironment() throws {
        let scratch = try ConfigurationScratch()
        let one = try scratch.file("1.yaml", "gateway.loops: 1")
        let two = try scratch.file("2.yaml", "gateway.loops: 2")
        #expect(try GatewaySettings.catalog.load(environment: ["SLUICE_CONFIG": one]).values.general.gateway.loops == 1)
        #expect(
            try GatewaySettings.catalog.load(environment: ["SLUICE_CONFIG": one], file: two).values.general.gateway
                .loops == 2
        )
    }

    // MARK: Secrets

    private static let key = "0123456789abcdef"

    @Test("a secret may come from a file named by environment, file or flag; trailing newlines are removed")
    func secretFiles() throws {
        let scratch = try ConfigurationScratch()
        let secret = try scratch.file("admin", Self.key + "\r\n\n")
        let named = [
            try GatewaySettings.catalog.load(environment: ["SLUICE_ADMIN_KEY_FILE": secret]),
            try GatewaySettings.catalog.load(file: try scratch.file("1.yaml", "adminKeyFile: \(secret)")),
            try GatewaySettings.catalog.load(file: try scratch.file("2.yaml", "adminKey_file: \(secret)")),
            try GatewaySettings.catalog.load(arguments: ["admin-key-file": secret]),
        ]
        for loaded in named {
            #expect(loaded.values.general.adminKey?.exposed == Self.key)
            guard case .secretFile(secret, _) = loaded.source(of: "adminKey") else {
                Issue.record("\(loaded.source(of: "adminKey"))")
                continue
            }
        }
    }

    @Test("value and file of the same secret in one source are a problem, in two sources the later wins")
    func secretConflicts() throws {
        let scratch = try ConfigurationScratch()
        let secret = try scratch.file("admin", Self.key)
        let both = ConfigurationLoaderTests.problems(
            environment: ["SLUICE_ADMIN_KEY": "fedcba9876543210", "SLUICE_ADMIN_KEY_FILE": secret]
        )
        #expect(both.map(\.message) == ["set only one of SLUICE_ADMIN_KEY and SLUICE_ADMIN_KEY_FILE"])
        let missing = ConfigurationLoaderTests.problems(
            environment: ["SLUICE_ADMIN_KEY": Self.key, "SLUICE_ADMIN_KEY_FILE": "/does/not/exist"]
        )
        #expect(missing.map(\.message) == both.map(\.message))
        for yaml in [
            "adminKey: \(Self.key)\nadminKeyFile: \(secret)", "adminKey_file: \(secret)\nadminKey: \(Self.key)",
            "adminKeyFile: \(secret)\nadminKey_file: \(secret)",
        ] {
            #expect(try problems(yaml).map(\.key) == ["adminKey"], "\(yaml)")
        }
        let file = try scratch.file("sluice.yaml", "adminKeyFile: \(secret)")
        let loaded = try GatewaySettings.catalog.load(environment: ["SLUICE_ADMIN_KEY": "fedcba9876543210"], file: file)
        #expect(loaded.values.general.adminKey?.exposed == "fedcba9876543210")
    }

    @Test("a missing secret file, or one with an invalid value, is reported without the secret")
    func wrongSecretFiles() throws {
        let scratch = try ConfigurationScratch()
        let missing = ConfigurationLoaderTests.problems(environment: ["SLUICE_MASTER_SECRET_FILE": "/does/not/exist"])
        #expect(missing.map(\.message) == ["there is no such file"])
        #expect(missing.map(\.value) == ["/does/not/exist"])
        let path = try scratch.file("secret", "dGVzdA==")
        let short = ConfigurationLoaderTests.problems(environment: ["SLUICE_MASTER_SECRET_FILE": path])
        #expect(short.map(\.value) == ["<redacted>"])
        #expect(!short.description.contains("dGVzdA"))
        #expect(short.first?.description.contains(path) == true)
    }

    @Test("no setting prints the user, the password or the query of a URL that it refuses")
    func urlsWithSecrets() throws {
        let urls = [
            "https://user:hunter2@app.example.com/hooks", "https://hunter2@app.example.com",
            "https://user:hun/ter2@app.example.com", "https:/user:hunter2@app.example.com",
            "https://user:hunter2@", "user:hunter2@app.example.com", "https://user:hunter2@app.example.com, https://b",
            "https:// app.example.com/hooks?token=hunter2", "https://user:p@hunter2@app.example.com",
        ]
        for setting in GatewaySettings.catalog.settings {
            for url in urls {
                let problems: SettingsProblems
                do throws(SettingsProblems) {
                    _ = try GatewaySettings.catalog.load(environment: [setting.environmentName: url])
                    continue
                } catch {
                    problems = error
                }
                let text = problems.description
                #expect(!text.contains("hunter2") && !text.contains("ter2"), "\(setting.key) = \(url): \(text)")
            }
        }
    }

    @Test("a secret on the command line is refused without repeating it", arguments: ["--", "-", ""])
    func secretFlags(dashes: String) throws {
        for setting in GatewaySettings.catalog.settings where setting.isSecret {
            let flag = dashes + setting.flag.dropFirst(2).replacing("-file", with: "")
            for arguments in [[flag, "hunter2"], [flag + "=hunter2"], [flag, "hunter2", "more"]] {
                let problems = #expect(throws: SettingsProblems.self) {
                    try GatewaySettings.catalog.parse(arguments + ["--log-level", "info"])
                }
                #expect(problems?.problems.count == 1, "\(arguments)")
                #expect(problems?.description.contains("hunter2") == false, "\(arguments)")
            }
            let problems = #expect(throws: SettingsProblems.self) {
                try GatewaySettings.catalog.load(arguments: [setting.flag: "hunter2"])
            }
            #expect(problems?.description.contains("hunter2") == false, "\(setting.flag)")
        }
    }

    @Test("broken YAML is reported without quoting the file")
    func brokenFileIsNotQuoted() throws {
        for yaml in [
            "adminKey: \"hunter2hunter2\" x\n", "adminKey: hunter2hunter2: x\n", "adminKey: \"hunter2hunter2\nlog: [\n",
        ] {
            let problems = try problems(yaml)
            #expect(problems.map(\.key) == ["config"])
            #expect(!problems.description.contains("hunter2"), "\(yaml)")
        }
    }

    @Test("a secret is never printed")
    func secretIsPrintedNowhere() throws {
        let settings = try GatewaySettings.catalog.load(environment: ["SLUICE_ADMIN_KEY": Self.key])
        let secret = try #require(settings.values.general.adminKey)
        var dumped = ""
        dump(settings, to: &dumped)
        let texts = [
            "\(secret)", String(describing: secret), String(reflecting: secret), secret.debugDescription, dumped,
            "\(settings)", String(reflecting: settings), "\(settings.values)", settings.describe(),
            Mirror(reflecting: secret).children.map { "\($0)" }.joined(),
        ]
        for text in texts { #expect(!text.contains(Self.key)) }
        #expect("\(secret)" == "<redacted>")
        #expect(secret.exposed == Self.key)
    }

    // MARK: Description

    @Test("the effective configuration is printed with sources, and is a configuration file itself")
    func describes() throws {
        let scratch = try ConfigurationScratch()
        let environment = [
            "SLUICE_GATEWAY_LISTEN": "[::1]:0", "SLUICE_TRUSTED_PROXIES": "10.0.0.0/8,::1",
            "SLUICE_DATA_DIR": "/tmp/it's: a #dir", "SLUICE_UPLOADS_EXPIRE_AFTER": "0",
            "SLUICE_LIMITS_UPLOAD_BYTES": "1000", "SLUICE_CORS_ORIGINS": "https://a.example,https://b.example",
        ]
        let loaded = try GatewaySettings.catalog.load(environment: environment)
        let text = loaded.describe()
        #expect(text.contains("gateway.listen: '[::1]:0'  # environment variable SLUICE_GATEWAY_LISTEN\n"))
        #expect(text.contains("limits.requestLine: 32KiB  # default\n"))
        #expect(text.contains("uploads.expireAfter: 0  # environment"))
        #expect(text.contains("# publicURL is not set\n"))
        #expect(text.contains("cors.origins: 'https://a.example, https://b.example'  #"))
        #expect(text.split(separator: "\n").count == GatewaySettings.catalog.settings.count)
        let reloaded = try GatewaySettings.catalog.load(file: try scratch.file("described.yaml", text))
        #expect(reloaded.values == loaded.values)
    }

    @Test("the effective configuration masks secrets")
    func describeMasks() throws {
        let loaded = try GatewaySettings.catalog.load(environment: [
            "SLUICE_ADMIN_KEY": Self.key, "SLUICE_TENCENT_SECRET_ID": "AKID1",
            "SLUICE_TENCENT_SECRET_KEY": "verysecret",
        ])
        let text = loaded.describe()
        #expect(text.contains("adminKey: <redacted>  # environment variable SLUICE_ADMIN_KEY\n"))
        #expect(text.contains("tencent.secretId: AKID1  #"))
        #expect(!text.contains(Self.key))
        #expect(!text.contains("verysecret"))
    }

    @Test("the reference has a row for each setting")
    func reference() throws {
        let rows = GatewaySettings.catalog.markdown().split(separator: "\n")
        #expect(rows.count == GatewaySettings.catalog.settings.count + 2)
        let columns = rows.map { $0.replacing("\\|", with: "").count { $0 == "|" } }
        #expect(Set(columns) == [7])
        for (setting, row) in zip(GatewaySettings.catalog.settings, rows.dropFirst(2)) {
            #expect(row.hasPrefix("| `\(setting.key)`"))
            #expect(row.contains("`\(setting.environmentName)`"))
            #expect(row.contains(setting.help))
        }
        #expect(rows.contains { $0.contains("`SLUICE_ADMIN_KEY_FILE`") })
    }

    @Test("the reference for terminals has a paragraph for each setting, in 100 columns")
    func terminal() {
        func words(_ text: some StringProtocol) -> String {
            text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        let text = GatewaySettings.catalog.text(width: 100)
        for line in text.split(separator: "\n") { #expect(line.count <= 100, "\(line)") }
        let paragraphs = text.split(separator: "\n\n")
        #expect(paragraphs.count == GatewaySettings.catalog.settings.count)
        for (setting, paragraph) in zip(GatewaySettings.catalog.settings, paragraphs) {
            #expect(words(paragraph).hasPrefix("\(setting.key) \(setting.flag), \(setting.environmentName)"))
            #expect(words(paragraph).contains(words(setting.help)))
            #expect(words(paragraph).contains(words(setting.allowed)))
        }
        #expect(text.contains("SLUICE_ADMIN_KEY_FILE"))
    }
}
