internal import Bytes
internal import Digests

/// Verifies requests that are signed for Tencent Cloud COS, in `Authorization` or in the query.
///
/// In two steps, because the secret comes from elsewhere:
///
///     let claim = try verifier.claim(request, at: now)
///     let credentials = …                               // of claim.secretID
///     try verifier.verify(claim, credentials: credentials)
///
/// Clients choose what they sign besides method and path: they can leave out headers, even the host, and parameters.
/// The content is never signed, except by `content-md5`.
package struct COSVerifier: Sendable {
    /// How far a client's clock may be ahead, in seconds.
    package static let maximumSkew: Int64 = 900

    package init() {}

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - request: With all its headers, and the path that the client signed.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    ///   - lateness: Seconds by which the signature may have expired; compare `COSClaim.end` then.
    /// - Returns: The claim.
    /// - Throws: The first problem found: any failure except `.wrongToken` and `.wrongSignature`.
    package func claim(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew,
        lateness: Int64 = 0
    ) throws(RequestSignatureFailure) -> COSClaim {
        let headers = RequestHeaders(request.headers)
        let (parts, isQuery) = try Self.parts(of: request, headers)
        guard try parts.single("q-sign-algorithm") == "sha1" else { throw .unsupportedAlgorithm }
        let secretID = try parts.single("q-ak")
        guard !secretID.isEmpty else { throw .malformed("q-ak") }
        let (signTimeText, signTime) = try Self.window(parts, "q-sign-time")
        let (keyTimeText, keyTime) = try Self.window(parts, "q-key-time")
        let signature = try parts.single("q-signature")
        guard SigningText.isHexadecimal(signature, count: DigestAlgorithm.sha1.byteCount) else {
            throw .malformed("q-signature")
        }
        let listedHeaders = Self.list(try parts.single("q-header-list"), of: request.headers)
        let listedParameters = Self.list(try parts.single("q-url-param-list"), of: request.query)
        let signedHeaders = try Self.pick(listedHeaders, from: request.headers) { .missingHeader($0) }
        let signedParameters = try Self.pick(listedParameters, from: request.query) { .missingParameter($0) }
        for window in [signTime, keyTime] { try Self.check(window, at: now, skew, lateness) }
        return COSClaim(
            secretID: secretID,
            signTime: signTime,
            keyTime: keyTime,
            isQuery: isQuery,
            signedHeaders: signedHeaders.map { SigningText.lowercased($0.name) },
            signedParameters: signedParameters.map { SigningText.lowercased($0.name) },
            token: try Self.token(request, headers),
            signature: signature,
            signTimeText: signTimeText,
            keyTimeText: keyTimeText,
            method: request.method,
            path: Self.path(request.path),
            parameters: signedParameters,
            headers: signedHeaders.map { SigningField(SigningText.lowercased($0.name), $0.value) },
            hosts: try Self.hosts(headers)
        )
    }

    /// Verifies signature and token of a claim in constant time.
    ///
    /// - Parameters:
    ///   - claim: A claim of this verifier.
    ///   - credentials: The credentials of `claim.secretID`.
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(_ claim: COSClaim, credentials: SigningCredentials) throws(RequestSignatureFailure) {
        let isSigned = claim.isSigned(secret: credentials.secretAccessKey)
        try credentials.check(accessKeyID: claim.secretID, isSigned: isSigned, token: claim.token)
    }

    // MARK: Parts of a claim

    static let names = [
        "q-sign-algorithm", "q-ak", "q-sign-time", "q-key-time", "q-header-list", "q-url-param-list", "q-signature",
    ]

    private static func parts(
        of request: SigningRequest,
        _ headers: RequestHeaders
    ) throws(RequestSignatureFailure) -> (parts: [SigningField], isQuery: Bool) {
        let inQuery = request.query.filter { names.contains($0.name) }
        let whole = try request.query.filter(isWhole).optional("sign")
        let field = try headers.single("authorization")
        guard [field != nil, whole != nil, !inQuery.isEmpty].count(where: { $0 }) <= 1 else { throw .twoSignatures }
        guard let authorization = field ?? whole else {
            guard !inQuery.isEmpty else { throw .noSignature }
            return (inQuery, true)
        }
        var text = authorization
        // Some clients escape the whole header.
        if !text.utf8.contains(UInt8(ascii: "&")) {
            guard let decoded = String(clientText: SigningText.percentDecoded(text.utf8)) else {
                throw .malformed("Authorization")
            }
            text = decoded
        }
        guard text.utf8.starts(with: "q-".utf8) else { throw .unsupportedAlgorithm }
        var parts: [SigningField] = []
        for part in text.utf8.split(separator: UInt8(ascii: "&")) {
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { throw .malformed("Authorization") }
            parts.append(
                SigningField(
                    String(Substring(part[..<equals])),
                    String(Substring(part[part.index(after: equals)...]))
                )
            )
        }
        return (parts, whole != nil)
    }

    /// Whether a parameter has what would be in `Authorization`: the SDK for PHP presigns so.
    package static func isWhole(_ parameter: SigningField) -> Bool {
        parameter.name == "sign" && parameter.value.hasPrefix("q-")
    }

    static func check(
        _ window: COSWindow,
        at now: Int64,
        _ skew: Int64,
        _ lateness: Int64 = 0
    ) throws(RequestSignatureFailure) {
        // The numbers have no sign, so the difference cannot overflow.
        guard now - lateness <= window.end else { throw .expired }
        guard window.start <= now + min(skew, maximumSkew) else { throw .skewed }
    }

    /// Two numbers separated by `;`, which may be escaped.
    static func window(
        _ parts: [SigningField],
        _ name: String
    ) throws(RequestSignatureFailure) -> (text: String, window: COSWindow) {
        guard let text = String(clientText: SigningText.percentDecoded(try parts.single(name).utf8)) else {
            throw .malformed(name)
        }
        let ends = text.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        guard ends.count == 2, let start = SigningText.number(Substring(ends[0])),
            let end = SigningText.number(Substring(ends[1])), start <= end
        else { throw .malformed(name) }
        return (text, COSWindow(start: start, end: end))
    }

    /// The names of a list, whose separators may be escaped, unless the text is the name of one field that contains
    /// `;`.
    private static func list(_ text: String, of fields: [SigningField]) -> [String] {
        var text = text
        if !text.utf8.contains(UInt8(ascii: ";")),
            !fields.contains(where: { COSCanonical.name($0.name) == SigningText.lowercased(text) })
        {
            text = text.replacing("%3B", with: ";").replacing("%3b", with: ";")
        }
        return text.utf8.split(separator: UInt8(ascii: ";")).map { String(Substring($0)) }
    }

    /// The listed fields in the order of the list; a repeated name must be listed as often.
    ///
    /// Names in the list are escaped and in lower case. In a query their escapes may have been decoded together with
    /// the query.
    private static func pick(
        _ list: [String],
        from fields: [SigningField],
        missing: (String) -> RequestSignatureFailure
    ) throws(RequestSignatureFailure) -> [SigningField] {
        guard !list.isEmpty else { return [] }
        var byName: [String: [SigningField]] = [:]
        for field in fields { byName[COSCanonical.name(field.name), default: []].append(field) }
        var taken: [String: Int] = [:]
        var picked: [SigningField] = []
        for item in list {
            let listed = SigningText.lowercased(item)
            let name = byName[listed] == nil ? COSCanonical.name(listed) : listed
            guard let values = byName[name] else { throw missing(item) }
            let index = taken[name, default: 0]
            guard index < values.count else { throw .duplicate(item) }
            taken[name] = index + 1
            picked.append(values[index])
        }
        for (name, count) in taken where count != byName[name]?.count { throw .duplicate(name) }
        return picked
    }

    private static func token(
        _ request: SigningRequest,
        _ headers: RequestHeaders
    ) throws(RequestSignatureFailure) -> String? {
        let name = "x-cos-security-token"
        guard let header = try headers.single(name) else { return try request.query.optional(name) }
        guard let parameter = try request.query.optional(name) else { return header }
        guard parameter.isExactly(header) else { throw .duplicate(name) }
        return header
    }

    static func path(_ path: String) -> [UInt8] {
        let decoded = SigningText.percentDecoded(path.utf8)
        return decoded.first == UInt8(ascii: "/") ? decoded : [UInt8(ascii: "/")] + decoded
    }

    /// The values of `host` that a client may have signed: the host of the request, with and without its port.
    ///
    /// A Tencent VOD client behind a proxy puts that host into `Vod-Forward-Cos`, and `Host` is the proxy's. The signed
    /// host is always the one that is used.
    private static func hosts(_ headers: RequestHeaders) throws(RequestSignatureFailure) -> [String] {
        let forwarded = try headers.single(forwardedHost)
        guard let host = try forwarded == nil ? headers.single("host") : forwarded else { return [] }
        let bare = SigningText.withoutPort(host)
        return bare == host ? [host] : [host, bare]
    }

    /// The header, in lower case, with the COS host of a request through a proxy.
    package static let forwardedHost = "vod-forward-cos"
}
