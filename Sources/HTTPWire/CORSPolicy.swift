internal import Bytes
internal import Synchronization

/// Which web pages may call the server from a browser: the CORS protocol of the Fetch standard
/// (https://fetch.spec.whatwg.org/#http-cors-protocol).
///
/// No response allows credentials (cookies): a client sends its own `Authorization` field or knows an unguessable URL.
/// Therefore `*` gives a page nothing that any other program could not do.
///
/// Copies share their rules: `follow` changes all of them.
package struct CORSPolicy: Sendable, Equatable {
    /// The allowed pages, by their origin (scheme, host and port).
    package enum Origins: Sendable, Equatable {
        case any
        /// Only these origins, written as browsers do: lower case, no default port, no path.
        case only(Set<String>)
    }

    package var origins: Origins { rules.current.origins }
    /// If `false`, no response has a CORS field; for a proxy in front that adds its own.
    package var isEnabled: Bool { rules.current.isEnabled }
    /// How long a browser may cache the response to a preflight, in seconds.
    package let maximumAge: Int
    /// Request fields that a page may set, in addition to those that every page may set.
    package let requestFields: [String]
    /// Response fields that a page may read, in addition to those that every page may read.
    package let exposedFields: [String]
    private let rules: Rules

    /// - Parameters:
    ///   - origins: See `Origins`.
    ///   - additionalRequestFields: The application's own fields; not needed with `.any`.
    ///   - maximumAge: How long a browser may cache the response to a preflight, in seconds; default one day.
    package init(
        origins: Origins = .any,
        additionalRequestFields: [FieldName] = [],
        maximumAge: Int = 86400
    ) {
        self.init(isEnabled: true, origins: origins, additional: additionalRequestFields, maximumAge: maximumAge)
    }

    /// Adds no CORS fields: a proxy in front does.
    package static var disabled: CORSPolicy {
        CORSPolicy(isEnabled: false, origins: .any, additional: [], maximumAge: 86400)
    }

    private init(isEnabled: Bool, origins: Origins, additional: [FieldName], maximumAge: Int) {
        rules = Rules(isEnabled: isEnabled, origins: origins)
        self.maximumAge = maximumAge
        requestFields = Self.knownRequestFields + additional.map(\.spelling)
        exposedFields = Self.knownExposedFields
    }

    /// Takes over the origins of another policy, or that it is disabled, in all copies of this one.
    package func follow(_ other: CORSPolicy) { rules.replace(with: other.rules) }

    package static func == (left: CORSPolicy, right: CORSPolicy) -> Bool {
        left.rules.current == right.rules.current && left.maximumAge == right.maximumAge
            && left.requestFields == right.requestFields && left.exposedFields == right.exposedFields
    }

    /// The response to a preflight (Fetch §3.2.2): an OPTIONS request that a browser sends before the page's own
    /// request.
    ///
    /// - Parameters:
    ///   - head: Any request.
    ///   - methods: The methods of the resource.
    /// - Returns: 204, or 403 for an origin that is not allowed; `nil` if the request is not a preflight or CORS is
    ///   disabled.
    package func preflight(_ head: RequestHead, methods: [HTTPMethod]) -> Response? {
        let (isEnabled, origins) = rules.current
        guard isEnabled, head.method == .options, head.fields.contains("Origin"),
            head.fields.contains("Access-Control-Request-Method")
        else { return nil }
        guard let allowed = Self.allowed(origins, for: head) else {
            var refusal = Response(
                403,
                ["Content-Type": "text/plain; charset=utf-8"],
                .bytes(Array("ERR_ORIGIN_NOT_ALLOWED: Pages of this origin may not use this server.\n".utf8))
            )
            Self.addVary(to: &refusal, "Origin", origins)
            return refusal
        }
        var response = Response(204)
        response.fields["Access-Control-Allow-Origin"] = allowed
        response.fields["Access-Control-Allow-Methods"] = methods.map(\.rawValue).joined(separator: ", ")
        response.fields["Access-Control-Allow-Headers"] =
            allowedRequestFields(for: head, origins).joined(separator: ", ")
        response.fields["Access-Control-Max-Age"] = String(maximumAge)
        Self.addVary(to: &response, "Origin", origins)
        // With `.any` the response depends on the requested fields.
        if origins == .any { Self.addVary(to: &response, "Access-Control-Request-Headers", origins) }
        return response
    }

    /// Adds the fields that a page needs to read the response, which may be an error.
    ///
    /// Idempotent.
    package func decorate(_ response: inout Response, for head: RequestHead) {
        let (isEnabled, origins) = rules.current
        guard isEnabled else { return }
        Self.addVary(to: &response, "Origin", origins)
        guard head.fields.contains("Origin"), let allowed = Self.allowed(origins, for: head) else { return }
        response.fields["Access-Control-Allow-Origin"] = allowed
        response.fields["Access-Control-Expose-Headers"] = exposedFields.joined(separator: ", ")
    }

    /// The value of `Access-Control-Allow-Origin`; `nil` if the origin is not allowed.
    private static func allowed(_ origins: Origins, for head: RequestHead) -> String? {
        switch origins {
        case .any: "*"
        case .only(let list): head.fields["Origin"].flatMap { list.contains($0) ? $0 : nil }
        }
    }

    private func allowedRequestFields(for head: RequestHead, _ origins: Origins) -> [String] {
        guard origins == .any else { return requestFields }
        let known = Set(requestFields.map { $0.lowercasedASCII() })
        // `*` would not cover Authorization (Fetch §3.2.4), so the requested names are repeated.
        let asked = head.fields.list("Access-Control-Request-Headers")
            .filter { FieldName($0) != nil && !known.contains($0.lowercasedASCII()) }
        return requestFields + asked
    }

    /// With a list of origins, the response depends on the Origin field, even if the request has none (Fetch §3.2.5).
    private static func addVary(to response: inout Response, _ name: String, _ origins: Origins) {
        if name == "Origin", origins == .any { return }
        let present = response.fields.list("Vary")
        if present.contains(where: { $0 == "*" || $0.lowercasedASCII() == name.lowercasedASCII() }) { return }
        response.fields["Vary"] = (present + [name]).joined(separator: ", ")
    }

    private static let knownRequestFields = [
        "Authorization", "Content-Digest", "Content-Disposition", "Content-Type", "If-Match", "Last-Event-ID", "Origin",
        "Repr-Digest", "Tus-Resumable", "Upload-Checksum", "Upload-Complete", "Upload-Concat", "Upload-Defer-Length",
        "Upload-Draft-Interop-Version", "Upload-Incomplete", "Upload-Length", "Upload-Metadata", "Upload-Offset",
        "Want-Content-Digest", "Want-Repr-Digest", "X-HTTP-Method-Override", "X-Request-ID", "X-Requested-With",
    ]

    private static let knownExposedFields = [
        "Accept-Patch", "Content-Digest", "ETag", "Location", "Range", "Repr-Digest", "Retry-After",
        "Tus-Checksum-Algorithm", "Tus-Extension", "Tus-Max-Size", "Tus-Resumable",
        "Tus-Version", "Upload-Complete", "Upload-Concat", "Upload-Defer-Length", "Upload-Draft-Interop-Version",
        "Upload-Expires", "Upload-Incomplete", "Upload-Length",
        "Upload-Limit", "Upload-Metadata", "Upload-Offset", "X-Request-ID",
    ]
}

/// What copies of a policy share.
private final class Rules: Sendable {
    typealias Values = (isEnabled: Bool, origins: CORSPolicy.Origins)

    private let values: Mutex<Values>

    init(isEnabled: Bool, origins: CORSPolicy.Origins) { values = Mutex((isEnabled, origins)) }

    var current: Values { values.withLock { $0 } }

    func replace(with other: Rules) {
        let current = other.current
        values.withLock { $0 = current }
    }
}

extension CORSPolicy.Origins {
    /// Origins as listed in a configuration: `*` for any, otherwise `https://app.example` or `http://localhost:3000`.
    ///
    /// - Throws: The first invalid entry, so that the message can show it.
    package init(_ texts: [String]) throws(InvalidOrigin) {
        var list: Set<String> = []
        for text in texts {
            if text == "*" {
                self = .any
                return
            }
            list.insert(try Self.normalized(text))
        }
        self = .only(list)
    }

    /// In lower case and without the default port, as browsers write the Origin field (RFC 6454 §6.2).
    private static func normalized(_ text: String) throws(InvalidOrigin) -> String {
        let lowered = text.lowercasedASCII()
        // Sent by pages from files and by sandboxed frames.
        if lowered == "null" { return lowered }
        guard let colon = lowered.firstRange(of: "://") else { throw InvalidOrigin(text: text) }
        let scheme = lowered[..<colon.lowerBound]
        var host = lowered[colon.upperBound...]
        let forbidden = Set("/?#@, *\"\t")
        guard !scheme.isEmpty, scheme.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }),
            !host.isEmpty, host.allSatisfy({ $0.isASCII && !forbidden.contains($0) })
        else { throw InvalidOrigin(text: text) }
        // The colons of an IPv6 address are inside brackets.
        if let last = host.lastIndex(of: ":"), host[last...].firstIndex(of: "]") == nil {
            let digits = host[host.index(after: last)...]
            guard last != host.startIndex, digits.allSatisfy(\.isNumber), let port = UInt16(digits) else {
                throw InvalidOrigin(text: text)
            }
            if scheme == "https", port == 443 { host = host[..<last] }
            if scheme == "http", port == 80 { host = host[..<last] }
        }
        return "\(scheme)://\(host)"
    }
}

/// A configured origin that is invalid.
package struct InvalidOrigin: Error, Sendable, Equatable, CustomStringConvertible {
    package let text: String

    package var description: String {
        "'\(text)' is not an origin; use '*' or scheme://host[:port] without path, e.g. https://app.example"
    }
}
