import GatewayKit
import SettingsKit
import Signing
import Bytes
import Gateway
import HTTPWire
import Telemetry
import Testing
import Transport

@Suite("Configuration: values", .timeLimit(.minutes(10)))
struct ConfigurationValuesTests {
    private func settings(_ name: String, _ value: String) -> Settings? {
        try? GatewaySettings.catalog.load(environment: [name: value]).values
    }

    @Test(
        "durations have a unit",
        arguments: [
            ("500ms", .milliseconds(500)), ("15s", .seconds(15)), ("5m", .seconds(300)), ("24h", .seconds(86400)),
            ("7d", .seconds(604_800)), ("010s", .seconds(10)), ("10ms", .milliseconds(10)),
            ("0", nil), ("9ms", nil), ("8d", nil), ("15", nil), ("", nil), ("s", nil), ("-1s", nil), ("+1s", nil),
            ("1.5s", nil), ("1 s", nil), (" 1s", nil), ("1S", nil), ("1h30m", nil), ("1w", nil), ("1e3s", nil),
            ("99999999999999999999s", nil), ("9223372036854775807d", nil), ("٣s", nil),
        ] as [(String, Duration?)]
    )
    func durations(text: String, value: Duration?) {
        #expect(settings("SLUICE_TIMEOUTS_HEAD", text)?.timeouts.head == value)
    }

    @Test("a duration disabled with zero is nil", arguments: ["0", "0s", "0ms"])
    func zeroDurations(text: String) throws {
        #expect(try #require(settings("SLUICE_UPLOADS_EXPIRE_AFTER", text)).uploads.expireAfter == nil)
        #expect(try #require(settings("SLUICE_TIMEOUTS_REQUEST", text)).timeouts.request == nil)
        #expect(settings("SLUICE_UPLOADS_EXPIRE_AFTER", "1ms") == nil)
    }

    @Test(
        "sizes are bytes or have a unit",
        arguments: [
            ("1", 1), ("512", 512), ("64KiB", 65536), ("64kib", 65536), ("10MB", 10_000_000), ("5kB", 5000), ("7B", 7),
            ("1GiB", 1_073_741_824), ("1TiB", 1_099_511_627_776), ("2TB", 2_000_000_000_000),
            ("9223372036854775807", .max), ("0", nil), ("9223372036854775808", nil), ("8388608TiB", nil), ("", nil),
            ("KiB", nil), ("-1", nil), ("1 KiB", nil), ("1.5GiB", nil), ("1K", nil), ("1PiB", nil), ("0x10", nil),
            ("1_000", nil), ("٣", nil),
        ] as [(String, Int64?)]
    )
    func sizes(text: String, value: Int64?) {
        #expect(settings("SLUICE_LIMITS_UPLOAD_BYTES", text)?.limits.uploadBytes == value)
    }

    @Test(
        "a listen address has a host and a port",
        arguments: [
            ("127.0.0.1:8080", "127.0.0.1", 8080), ("0.0.0.0:0", "0.0.0.0", 0), ("[::1]:8080", "::1", 8080),
            ("[::]:65535", "::", 65535), ("localhost:80", "localhost", 80), ("a-b.example:1", "a-b.example", 1),
        ] as [(String, String, UInt16)]
    )
    func listenAddresses(text: String, host: String, port: UInt16) throws {
        let address = try #require(ListenAddress(text))
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.description == text)
    }

    @Test(
        "a client on this machine connects to an address of its own",
        arguments: [
            ("0.0.0.0:8080", "127.0.0.1:8080"), ("[::]:1", "[::1]:1"), ("192.0.2.1:1", "192.0.2.1:1"),
            ("unix:/run/sluice.sock", "unix:/run/sluice.sock"),
        ]
    )
    func onThisMachine(listen: String, connect: String) throws {
        #expect(try #require(ListenAddress(listen)).onThisMachine.description == connect)
    }

    @Test(
        "anything else is no listen address",
        arguments: [
            "", ":8080", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
            "::1:8080",
            "[::1]", "[::1]8080", "[127.0.0.1]:1", "[]:1", "[::g]:1", "1.2.3:1", "1.2.3.4.5:1", "256.0.0.1:1", "a b:1",
            "a_b:1", "-a:1", "a..b:1", "http://a:1", "*:80", "ä:1",
        ]
    )
    func wrongListenAddresses(text: String) {
        #expect(ListenAddress(text) == nil)
    }

    @Test(
        "a range contains an address or not",
        arguments: [
            ("10.0.0.0/8", "10.255.1.2", true), ("10.0.0.0/8", "11.0.0.0", false), ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false), ("192.0.2.128/25", "192.0.2.127", false),
            ("192.0.2.128/25", "192.0.2.129", true), ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false), ("::/0", "::1", true), ("::/0", "127.0.0.1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true), ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::1", "0:0:0:0:0:0:0:1", true), ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fe80::/10", "fe80::1%eth0", true), ("2001:db8::/64", "2001:db8::ffff:0:0:1", true),
            ("2001:db8::/64", "2001:db8:0:1::", false), ("2001:db8::/65", "2001:db8::7fff:0:0:1", true),
            ("2001:db8::/65", "2001:db8::8000:0:0:1", false), ("2001:db8::1/128", "2001:db8::2", false),
            ("::/127", "::1", true), ("::/127", "::2", false), ("0.0.0.0/1", "127.255.255.255", true),
            ("0.0.0.0/1", "128.0.0.0", false),
            ("10.0.0.0/8", "10.0.0.1%eth0", false), ("10.0.0.0/8", "", false), ("10.0.0.0/8", "10.0.0", false),
            ("10.0.0.0/8", "unix", false),
        ]
    )
    func ranges(range: String, address: String, isInside: Bool) throws {
        #expect(try #require(CIDR(range)).contains(address) == isInside)
    }

    @Test(
        "a malformed range is refused",
        arguments: [
            "", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0.1/8",
            "2001:db8::1/32", "10.0.0/8", "10.0.0.0/ 8", "010.0.0.0/8", "localhost", "[::1]", "10.0.0.0/0008",
            "1.2.3.4\u{0}",
        ]
    )
    func wrongRanges(text: String) {
        #expect(CIDR(text) == nil)
        #expect(settings("SLUICE_TRUSTED_PROXIES", "127.0.0.1,\(text)") == nil)
    }

    @Test("ranges are written in their shortest form")
    func rangesAreWritten() {
        #expect(CIDR("2001:0DB8:0:0::/32")?.description == "2001:db8::/32")
        #expect(CIDR("10.0.0.0/8")?.description == "10.0.0.0/8")
        #expect(CIDR("192.0.2.1/32")?.description == "192.0.2.1")
    }

    @Test(
        "a public URL is absolute and has no query",
        arguments: [
            ("https://up.example", "https://up.example"), ("http://up.example:8080/", "http://up.example:8080"),
            ("HTTPS://up.example/a/b//", "https://up.example/a/b"), ("https://[::1]:1/x", "https://[::1]:1/x"),
            ("https://up.example/a%20b", "https://up.example/a%20b"), ("up.example", nil), ("/prefix", nil),
            ("ftp://up.example", nil), ("https://", nil), ("https:///x", nil), ("https://u:p@up.example", nil),
            ("https://up.example?x", nil), ("https://up.example/?", nil), ("https://up.example/#f", nil),
            ("https://up.example/a b", nil), ("https://up.example/a//b", nil), ("https://up.example/../b", nil),
            ("https://up.example/%2e%2e/b", nil), ("https://up.example:99999", nil), ("https://up.example/%zz", nil),
            ("/", nil),
            ("https://up.example/\r\nX: y", nil),
        ] as [(String, String?)]
    )
    func publicURLs(text: String, url: String?) {
        #expect(settings("SLUICE_PUBLIC_URL", text)?.general.publicURL == url)
    }

    @Test("the base path is a path, or the root")
    func basePaths() {
        #expect(settings("SLUICE_GATEWAY_BASE_PATH", "/up/")?.general.gateway.basePath == BasePath("/up"))
        #expect(settings("SLUICE_GATEWAY_BASE_PATH", "/").map { $0.general.gateway.basePath == nil } == true)
        #expect(settings("SLUICE_GATEWAY_BASE_PATH", "up") == nil)
        #expect(settings("SLUICE_GATEWAY_BASE_PATH", "/up/../down") == nil)
    }

    @Test(
        "origins are written as browsers write them",
        arguments: [
            ("*", .any), (" * ", .any), ("https://A.example", .only(["https://a.example"])),
            ("https://a.example:443, http://b.example:8080", .only(["https://a.example", "http://b.example:8080"])),
            ("http://a.example:443", .only(["http://a.example:443"])), ("a.example", nil), ("https://a.example/", nil),
            ("https://a.example/x", nil), ("https://a.example?", nil), ("null", nil), ("*, https://a.example", nil),
            ("https://a.example,", nil),
            ("https://*.example", nil),
        ] as [(String, CORSSettings.Origins?)]
    )
    func origins(text: String, origins: CORSSettings.Origins?) {
        #expect(settings("SLUICE_CORS_ORIGINS", text)?.cors.origins == origins)
    }

    @Test(
        "an admin key has at least 16 visible characters",
        arguments: [
            ("0123456789abcdef", true), ("!~!~!~!~!~!~!~!~", true), ("0123456789abcde", false),
            ("0123456789 abcdef", false),
            ("0123456789abcdefü", false), ("0123456789abcdef\n", false), ("", false),
        ]
    )
    func adminKeys(text: String, isAllowed: Bool) {
        #expect((settings("SLUICE_ADMIN_KEY", text)?.general.adminKey?.exposed == text) == isAllowed)
    }

    @Test("a master secret is base64 of at least 32 bytes; there may be several")
    func masterSecrets() throws {
        let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        let secret = try #require(settings("SLUICE_MASTER_SECRET", good)?.general.masterSecret)
        #expect(secret.exposed == MasterSecret(bytes: Array(0..<32)))
        let other = Base64.encode([UInt8](1...32))
        let both = MasterSecret(bytes: Array(0..<32), accepting: [Array(1...32)])
        for text in ["\(good),\(other)", "\(good)\n\(other)"] {
            #expect(settings("SLUICE_MASTER_SECRET", text)?.general.masterSecret?.exposed == both)
        }
        for bad in [
            "", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", String(good.dropLast()), good + "!", "x" + good,
            good + "," + good,
        ] {
            #expect(settings("SLUICE_MASTER_SECRET", bad) == nil, "\(bad)")
        }
    }

    @Test("numbers and choices are strict")
    func numbersAndChoices() {
        #expect(settings("SLUICE_GATEWAY_LOOPS", "0")?.general.gateway.loops == 0)
        #expect(settings("SLUICE_GATEWAY_LOOPS", "1025") == nil)
        #expect(settings("SLUICE_GATEWAY_LOOPS", "-1") == nil)
        #expect(settings("SLUICE_GATEWAY_LOOPS", "1.0") == nil)
        #expect(settings("SLUICE_LIMITS_CONNECTIONS", "0") == nil)
        #expect(settings("SLUICE_DURABILITY", "none")?.general.durability == GeneralSettings.Durability.none)
        #expect(settings("SLUICE_DURABILITY", "None") == nil)
        #expect(settings("SLUICE_CORS_ENABLED", "false")?.cors.isEnabled == false)
        #expect(settings("SLUICE_CORS_ENABLED", "0") == nil)
        #expect(settings("SLUICE_LOG_LEVEL", "critical")?.log.level == .critical)
        #expect(settings("SLUICE_LOG_FORMAT", "xml") == nil)
    }
}
