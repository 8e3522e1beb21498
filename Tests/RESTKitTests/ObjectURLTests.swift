import Testing

@testable import RESTKit

@Suite("URL of the object endpoint", .timeLimit(.minutes(10)))
struct ObjectURLTests {
    @Test(
        "it has scheme and host, without the default port",
        arguments: [
            ("http://Uploads.example:8080", "9000", "http://uploads.example:9000"),
            ("https://uploads.example/prefix", "9000", "https://uploads.example:9000"),
            ("http://[::1]:8080/x", "9000", "http://[::1]:9000"), ("http://[::1]", "9000", "http://[::1]:9000"),
            ("http://uploads.example", "80", "http://uploads.example"),
            ("https://uploads.example:8443", "443", "https://uploads.example"),
            ("https://uploads.example", "80", "https://uploads.example:80"),
            ("HTTPS://s3.example:443", nil, "https://s3.example"),
            ("http://s3.example:9000", nil, "http://s3.example:9000"),
            ("http://[::1]:80", nil, "http://[::1]"), ("http://s3.example:", nil, "http://s3.example"),
        ]
    )
    func origins(url: String, port: String?, expected: String) {
        #expect(ObjectURL.origin(of: url, port: port) == expected)
    }
}
