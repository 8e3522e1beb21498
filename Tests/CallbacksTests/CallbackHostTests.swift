import HTTPClient
import Testing

@testable import Callbacks

@Suite("Allowed hosts of callbacks", .timeLimit(.minutes(10)))
struct CallbackHostTests {
    @Test(
        "a host covers URLs of its name and port",
        arguments: [
            (
                "app.example.com",
                ["http://app.example.com/", "HTTPS://APP.example.com:443/x", "http://app.example.com:80"]
            ),
            ("App.example.com:8443", ["http://app.example.com:8443", "https://app.example.com:8443/a?b"]),
            ("10.1.2.3:8000", ["http://10.1.2.3:8000/", "http://0xa.1.2.3:8000/"]),
            ("[fd00::1]:8000", ["http://[FD00:0::1]:8000/"]), ("[::1]", ["http://[::1]/"]),
            ("localhost:1", ["http://localhost:1"]),
            ("*.example.com", ["http://a.example.com/", "https://b.a.example.com/"]),
            ("*.example.com:81", ["http://a.example.com:81/"]),
        ]
    )
    func covered(_ text: String, _ urls: [String]) throws {
        let host = try #require(CallbackHost(text))
        for url in urls { #expect(host.covers(try #require(WebAddress(url))), "\(url)") }
    }

    @Test(
        "a host covers no other URLs",
        arguments: [
            (
                "app.example.com",
                [
                    "http://app.example.com:8080/", "https://app.example.com:80/", "http://xapp.example.com/",
                    "http://app.example.com.evil.example/", "http://app.example.com@evil.example/",
                    "http://evil.example/app.example.com", "http://evil.example#app.example.com", "http://example.com/",
                    "http://app.example.com./",
                ]
            ),
            ("app.example.com:8443", ["http://app.example.com/", "https://app.example.com/"]),
            (
                "*.example.com",
                ["http://example.com/", "http://badexample.com/", "http://.example.com/", "http://a.example.com:81/"]
            ),
            ("10.1.2.3", ["http://10.1.2.4/", "http://10.1.2.3.example/"]),
            ("[::1]", ["http://127.0.0.1/", "http://[::2]/"]),
            ("example.com", ["http://127.0.0.1/"]),
        ]
    )
    func notCovered(_ text: String, _ urls: [String]) throws {
        let host = try #require(CallbackHost(text))
        // Text that is not a URL is refused earlier.
        for url in urls { #expect(WebAddress(url).map { host.covers($0) } != true, "\(url)") }
    }

    @Test(
        "text that is not a host is refused",
        arguments: [
            "", "*", "*.", "*.*.com", "a.*.com", "http://app.example.com", "app.example.com/x", "user@app.example.com",
            "a b",
            "app.example.com:x", "app.example.com:65536", "*.10.1.2.3", "::1", "[::1", "*.[::1]", "-a.example",
        ]
    )
    func none(_ text: String) {
        #expect(CallbackHost(text) == nil)
    }
}
