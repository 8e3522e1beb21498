internal import HTTPWire

/// A request that was checked, and where it goes next.
struct PreparedRequest: Sendable {
    let request: HTTPClientRequest
    private(set) var method: String
    private(set) var target: WebAddress
    private(set) var headers: [(name: String, value: String)]
    private(set) var body: [UInt8]
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
        self.request = request
        self.target = target
        method = request.method
        headers = request.headers
        body = request.body
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
            following.headers.removeAll { Self.describesContent($0.name) }
        }
        return following
    }

    private static func describesContent(_ name: String) -> Bool {
        let name = name.lowercased()
        return name.hasPrefix("content-") || name == "digest"
    }
}
