internal import Bytes
internal import HTTPWire

/// A validated request and its current target.
struct PreparedRequest: Sendable {
    let request: HTTPClientRequest
    private(set) var method: String
    private(set) var target: WebAddress
    private(set) var headers: [(name: String, value: String)]
    private(set) var body: [UInt8]
    private(set) var content: (any HTTPRequestContent)?
    private(set) var redirects = 0

    /// - Throws: `.badRequest`.
    init(_ request: HTTPClientRequest) throws(HTTPClientError) {
        guard let target = WebAddress(request.url) else {
            throw .badRequest("the URL must be absolute, with http or https and a host")
        }
        guard !request.method.isEmpty, request.method.utf8.allSatisfy(HTTPCharacters.isToken) else {
            throw .badRequest("the method is not a token")
        }
        for (name, value) in request.headers {
            guard FieldName(name) != nil, value.utf8.allSatisfy(HTTPCharacters.isFieldValue) else {
                throw .badRequest("a header field has a name or value that cannot be sent")
            }
        }
        if let content = request.content { try Self.check(content, of: request) }
        self.request = request
        self.target = target
        method = request.method
        headers = request.headers
        body = request.body
        content = request.content
    }

    private static func check(
        _ content: any HTTPRequestContent,
        of request: HTTPClientRequest
    ) throws(HTTPClientError) {
        guard request.body.isEmpty, request.method != "HEAD", content.length >= 0 else {
            throw .badRequest("streamed content must not be combined with a body or HEAD")
        }
        for (name, value) in request.headers {
            switch name.lowercasedASCII() {
            // Allowed if it is correct, because it may be part of a signature.
            case "content-length" where value != String(content.length):
                throw .badRequest("the Content-Length field differs from the length of the content")
            case "transfer-encoding", "expect":
                throw .badRequest("header fields must not define the framing of the content")
            default: break
            }
        }
    }

    /// The request that follows a redirect (RFC 9110 §15.4).
    ///
    /// - Throws: `.tooManyRedirects`; `.badRequest` if the target is not an http or https URL.
    func redirected(_ status: Int, to location: String) throws(HTTPClientError) -> PreparedRequest {
        guard redirects < request.maximumRedirects else { throw .tooManyRedirects(limit: request.maximumRedirects) }
        guard let next = WebAddress(location, relativeTo: target) else {
            throw .badRequest("the target of a redirect is not an http or https URL")
        }
        var following = self
        following.redirects += 1
        following.target = next
        // Fields for one host, especially credentials, must not reach another.
        if next.origin != target.origin { following.headers = [] }
        if status == 303 && method != "HEAD" || (status == 301 || status == 302) && method == "POST" {
            following.method = "GET"
            following.body = []
            following.content = nil
            following.headers.removeAll { Self.describesContent($0.name) }
        }
        return following
    }

    private static func describesContent(_ name: String) -> Bool {
        let name = name.lowercasedASCII()
        return name.hasPrefix("content-") || name == "digest"
    }
}
