internal import Bytes
package import HTTPWire
internal import ObjectGrants
internal import Signing
internal import XMLText

/// The CORS rules of a bucket (`CORSConfiguration`); the document is kept unchanged, and returned so except to OSS clients.
///
/// "Using cross-origin resource sharing", Amazon S3 User Guide: the first rule that allows the origin, the method and
/// all requested headers applies.
package struct BucketCORS: Sendable, Equatable {
    struct Rule: Sendable, Equatable {
        let origins: [WildcardPattern]
        let methods: [String]
        /// In lower case.
        let headers: [WildcardPattern]
        let exposed: [String]
        let maximumAge: Int?
    }

    let rules: [Rule]

    /// - Parameter bytes: The document.
    /// - Throws: `MalformedXML`; `InvalidRequest` for an invalid rule.
    package init(document bytes: [UInt8]) throws(ObjectError) {
        let root = try RequestDocuments.root(
            bytes,
            "CORSConfiguration",
            limit: RequestDocuments.Limit.cors,
            nesting: ["CORSRule"],
            repeating: ["CORSRule", "AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader"]
        )
        let nodes = root.all("CORSRule")
        guard (1...100).contains(nodes.count), nodes.count == root.children.count else {
            throw ObjectError(.malformedXML)
        }
        var rules: [Rule] = []
        for node in nodes { rules.append(try Self.rule(node)) }
        self.rules = rules
    }

    /// For buckets without their own rules: pages of these origins may send any request.
    ///
    /// - Parameter origins: As browsers write them; `*` for any.
    package init(origins: [String]) {
        rules = [
            Rule(
                origins: origins.map { WildcardPattern($0) },
                methods: ["GET", "HEAD", "PUT", "POST", "DELETE"],
                headers: [WildcardPattern("*")],
                exposed: Self.exposed,
                maximumAge: 86400
            )
        ]
    }

    /// Header fields that clients in browsers read.
    private static let exposed =
        ["ETag", "Location", "Date", "Accept-Ranges", "Content-Range"]
        + ["checksum-crc32", "checksum-crc32c", "checksum-crc64nvme", "checksum-sha1", "checksum-sha256", "request-id"]
        .map { "x-amz-" + $0 }
        + ["oss", "cos"].flatMap { ["x-\($0)-hash-crc64ecma", "x-\($0)-request-id"] }
        + ["x-oss-next-append-position"]

    private static func rule(_ node: XMLNode) throws(ObjectError) -> Rule {
        let known: Set<ExactText> = [
            "ID", "AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader", "MaxAgeSeconds",
        ]
        let origins = node.all("AllowedOrigin").map(\.text)
        let methods = node.all("AllowedMethod").map(\.text)
        guard node.children.allSatisfy({ known.contains($0.name) }), !origins.isEmpty, !methods.isEmpty else {
            throw ObjectError(.malformedXML)
        }
        for method in methods where !["GET", "PUT", "POST", "DELETE", "HEAD"].contains(method) {
            throw ObjectError(
                .invalidRequest,
                "Found unsupported HTTP method in CORS config. Unsupported method is \(method.first(scalars: 32))"
            )
        }
        let headers = node.all("AllowedHeader").map { $0.text.lowercasedASCII() }
        for (name, texts) in [("AllowedOrigin", origins), ("AllowedHeader", headers)] {
            for text in texts where text.contains("?") || text.utf8.count(where: { $0 == UInt8(ascii: "*") }) > 1 {
                throw ObjectError(
                    .invalidRequest,
                    "\(name) \"\(text.first(scalars: 256))\" cannot have more than one wildcard, which is an asterisk."
                )
            }
        }
        var age: Int?
        if let text = node.trimmed("MaxAgeSeconds") {
            guard let number = ObjectParameters.number(text), number <= 2_147_483_647 else {
                throw ObjectError(.malformedXML)
            }
            age = number
        }
        let exposed = node.all("ExposeHeader").map(\.text)
        guard exposed.allSatisfy({ FieldName($0) != nil }) else {
            throw ObjectError(.invalidRequest, "ExposeHeader must be the name of a header, without wildcard.")
        }
        return Rule(
            origins: origins.map { WildcardPattern($0) },
            methods: methods,
            headers: headers.map { WildcardPattern($0) },
            exposed: exposed,
            maximumAge: age
        )
    }

    /// The response to a preflight.
    ///
    /// - Parameters:
    ///   - head: A request with the method OPTIONS.
    ///   - rules: The bucket's rules; `nil` if it has none.
    /// - Returns: 200 with the CORS header fields.
    /// - Throws: `InvalidRequest` if it is not a preflight; `AccessForbidden` if no rule allows it.
    package static func preflight(_ head: RequestHead, _ rules: BucketCORS?) throws(ObjectError) -> Response {
        guard let origin = head.fields["Origin"] else {
            throw ObjectError(.invalidRequest, "Insufficient information. Origin request header needed.")
        }
        guard let method = head.fields["Access-Control-Request-Method"] else {
            throw ObjectError(.invalidRequest, "Invalid Access-Control-Request-Method: null")
        }
        let headers = head.fields.list("Access-Control-Request-Headers").map { $0.lowercasedASCII() }
        guard let rule = rules?.rule(origin: origin, method: method, headers: headers) else {
            throw ObjectError(.accessForbidden, fields: ["Vary": Self.vary])
        }
        var response = Response(200, rule.fields(origin: origin))
        if !headers.isEmpty {
            response.fields["Access-Control-Allow-Headers"] = headers.joined(separator: ", ")
        }
        if let age = rule.maximumAge { response.fields["Access-Control-Max-Age"] = String(age) }
        return response
    }

    /// Adds the fields that let a page read a response, whether or not it is an error.
    package func decorate(_ fields: inout HTTPFields, for head: RequestHead) {
        guard let origin = head.fields["Origin"] else { return }
        guard let rule = rule(origin: origin, method: head.method.rawValue, headers: []) else {
            fields["Vary"] = Self.vary
            return
        }
        let added = rule.fields(origin: origin)
        let names: [FieldName] = [
            "Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Expose-Headers", "Vary",
        ]
        for name in names { fields[name] = added[name] }
    }

    /// A document `CORSConfiguration` for OSS clients, in which the names of header fields are in lower case ("GetBucketCors", OSS
    /// documentation, and the vendor's own tests).
    func documentOfOSS() -> [UInt8] {
        var document = XMLWriter("CORSConfiguration", .aliyun)
        for rule in rules {
            document.element("CORSRule") { node in
                for origin in rule.origins { node.element("AllowedOrigin", origin.text) }
                for method in rule.methods { node.element("AllowedMethod", method) }
                for header in rule.headers { node.element("AllowedHeader", header.text) }
                for name in rule.exposed { node.element("ExposeHeader", name) }
                if let age = rule.maximumAge { node.element("MaxAgeSeconds", age) }
            }
        }
        return document.finished()
    }

    static let vary = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"

    private func rule(origin: String, method: String, headers: [String]) -> Rule? {
        rules.first { rule in
            rule.origins.contains { $0.matches(origin) } && rule.methods.contains(method)
                && headers.allSatisfy { header in rule.headers.contains { $0.matches(header) } }
        }
    }
}

extension BucketCORS.Rule {
    /// The CORS fields for responses under this rule; credentials (cookies) are never allowed.
    fileprivate func fields(origin: String) -> HTTPFields {
        var fields = HTTPFields()
        fields["Access-Control-Allow-Origin"] = origins.contains { $0.text == "*" } ? "*" : origin
        fields["Access-Control-Allow-Methods"] = methods.joined(separator: ", ")
        if !exposed.isEmpty { fields["Access-Control-Expose-Headers"] = exposed.joined(separator: ", ") }
        fields["Vary"] = BucketCORS.vary
        return fields
    }
}
