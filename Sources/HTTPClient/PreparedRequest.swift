internal import HTTPWire

/// A request that was checked, and where it goes next.
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
            throw .badRequest("the method is no token")
        }
        for (name, value) in request.headers {
            guard FieldName(name) != nil, value.utf8.allSatisfy(HTTPCharacters.isFieldValue) else {
                throw .badRequest("a header field has a name or value that can not be sent")
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
            throw .badRequest("the request can not have that content")
        }
        for (name, value) in request.headers {
            switch name.lowercased() {
            // Of use where fields are signed; what it says is the frame of the content.
            case "content-length" where value != String(content.length):
                throw .badRequest("the content has another length than the header fields tell")
            case "transfer-encoding", "expect":
                throw .badRequest("a header field says how the content is sent")
            default: break
            }
        }
    }

    /// The request that follows a redirect (RFC 9110 §15.4).
    ///
    /// - Throws: `.tooManyRedirects`, `.badRequest` for a target that is no http or https URL.
    func redirected(_ status: Int, to location: String) throws(HTTPClientError) -> PreparedRequest {
        guard redirects < request.maximumRedirects else { throw .tooManyRedirects(limit: request.maximumRedirects) }
        guard let next = WebAddress(location, relativeTo: target) else {
            throw .badRequest("a redirect leads to something that is no http or https URL")
        }
        var following = self
        following.redirects += 1
        following.target = next
        // What was meant for one host, credentials first of all, is not for another.
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
        let name = name.lowercased()
        return name.hasPrefix("content-") || name == "digest"
    }
}
