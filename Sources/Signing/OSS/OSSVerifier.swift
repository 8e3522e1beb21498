internal import Bytes
internal import Digests

/// Verifies requests that are signed for Alibaba Cloud OSS, with version 1 or 4, in `Authorization` or in the query.
///
/// In two steps, because the secret comes from elsewhere:
///
///     let claim = try verifier.claim(request, at: now)
///     let credentials = …                               // of claim.accessKeyID
///     let resource = try verifier.verify(claim, resources: candidates, credentials: credentials)
///
/// Neither version signs the content. Version 1 signs keys and parameter values without escapes: a key that ends with
/// `?uploads` has the same signature as the key without it and with that parameter. Therefore keys chosen for clients
/// must not contain `?`.
package struct OSSVerifier: Sendable {
    /// Maximum clock difference in seconds ("RequestTimeTooSkewed", OSS documentation, "Error codes").
    package static let maximumSkew: Int64 = 900
    /// Maximum lifetime of a version 4 signature in a query: 7 days, in seconds.
    package static let maximumLifetime: Int64 = 604_800

    let region: String?
    private let parseDate: @Sendable (String) -> Int64?

    /// - Parameters:
    ///   - region: Required region in the scope of version 4; `nil` for any.
    ///   - parseDate: Parses an HTTP date (RFC 9110 §5.6.7) into Unix seconds.
    package init(region: String?, parseDate: @escaping @Sendable (String) -> Int64?) {
        self.region = region
        self.parseDate = parseDate
    }

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - request: With all its headers; its path is ignored.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    /// - Returns: The claim.
    /// - Throws: The first problem found: any failure except `.wrongToken` and `.wrongSignature`.
    package func claim(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> OSSClaim {
        let claim = try claimOfAnyClock(request, at: now, skew: skew)
        guard !claim.isSkewed(at: now, by: skew) else { throw .skewed }
        return claim
    }

    /// The same, but with whatever date in the header: the caller checks `OSSClaim.isSkewed`.
    package func claimOfAnyClock(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> OSSClaim {
        let headers = RequestHeaders(request.headers)
        for name in headers.names where OSSCanonical.isAlwaysSigned(name) { _ = try headers.single(name) }
        let authorization = try headers.single("authorization")
        let isV1 = request.query.contains { Self.namesV1.contains($0.name) }
        let isV4 = request.query.contains { Self.namesV4.contains($0.name) }
        switch (authorization, isV1, isV4) {
        case (nil, true, false): return try queryV1(request, headers, at: now)
        case (nil, false, true): return try queryV4(request, headers, at: now, skew)
        case (let text?, false, false): return try header(text, request, headers)
        case (nil, false, false): throw .noSignature
        default: throw .twoSignatures
        }
    }

    /// Verifies signature and token of a claim in constant time.
    ///
    /// - Parameters:
    ///   - claim: A claim of this verifier.
    ///   - resources: The possible resources, if the URL is ambiguous: the bucket can be in the host, in the path or
    /// missing, and some
    ///     clients write `+` for a space in the path.
    ///   - credentials: The credentials of `claim.accessKeyID`.
    /// - Returns: The first of `resources` that matches the signature.
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(
        _ claim: OSSClaim,
        resources: [OSSResource],
        credentials: SigningCredentials
    ) throws(RequestSignatureFailure) -> OSSResource {
        let resource = resources.first { claim.isSigned($0, secret: credentials.secretAccessKey) }
        try credentials.check(accessKeyID: claim.accessKeyID, isSigned: resource != nil, token: claim.token)
        guard let resource else { throw .wrongSignature }
        return resource
    }

    // MARK: The places of a signature

    private static let namesV1: Set<String> = ["OSSAccessKeyId", "Signature"]
    private static let namesV4: Set<String> = ["x-oss-signature-version", "x-oss-credential", "x-oss-signature"]
    private static let schemeV1 = "OSS "

    private func header(
        _ authorization: String,
        _ request: SigningRequest,
        _ headers: RequestHeaders
    ) throws(RequestSignatureFailure) -> OSSClaim {
        let token = try headers.single("x-oss-security-token")
        guard authorization.utf8.starts(with: Self.schemeV1.utf8) else {
            return try headerV4(authorization, token, request, headers)
        }
        let parts = SigningText.trimmed(authorization.dropFirst(Self.schemeV1.count))
            .split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else { throw .malformed("Authorization") }
        // Browsers cannot set Date.
        let isEmpty = try (headers.single("x-oss-date") ?? "").isEmpty
        let name = isEmpty ? "date" : "x-oss-date"
        let text = try headers.required(name)
        guard let date = SigningTime.parse(text) ?? parseDate(text) else { throw .malformed(name) }
        return OSSClaim(
            version: .v1,
            accessKeyID: String(parts[0]),
            scope: nil,
            date: date,
            expiry: nil,
            token: token,
            signature: try Self.signatureV1(String(parts[1])),
            timestamp: text,
            additionalHeaders: [],
            request: request
        )
    }

    private func headerV4(
        _ authorization: String,
        _ token: String?,
        _ request: SigningRequest,
        _ headers: RequestHeaders
    ) throws(RequestSignatureFailure) -> OSSClaim {
        let parts = try AuthorizationParts(authorization, algorithm: OSSVersion.algorithmV4)
        try parts.allow(["Credential", "AdditionalHeaders", "Signature"])
        let (accessKeyID, scope) = try scope(try parts.value("Credential"))
        let signature = try AuthorizationParts.signature(try parts.value("Signature"), count: 32)
        let (timestamp, date) = try dateV4(headers, scope)
        let payload = try headers.required("x-oss-content-sha256")
        guard payload == OSSVersion.unsignedPayload else { throw .malformed("x-oss-content-sha256") }
        return OSSClaim(
            version: .v4,
            accessKeyID: accessKeyID,
            scope: scope,
            date: date,
            expiry: nil,
            token: token,
            signature: signature,
            timestamp: timestamp,
            additionalHeaders: try Self.additionalHeaders(parts["AdditionalHeaders"], headers),
            request: request
        )
    }

    private func queryV1(
        _ request: SigningRequest,
        _ headers: RequestHeaders,
        at now: Int64
    ) throws(RequestSignatureFailure) -> OSSClaim {
        let accessKeyID = try request.query.single("OSSAccessKeyId")
        guard !accessKeyID.isEmpty else { throw .malformed("OSSAccessKeyId") }
        let signature = try Self.signatureV1(try request.query.single("Signature"))
        let text = try request.query.single("Expires")
        guard let expiry = SigningText.number(text) else { throw .malformed("Expires") }
        guard now <= expiry else { throw .expired }
        return OSSClaim(
            version: .v1,
            accessKeyID: accessKeyID,
            scope: nil,
            date: nil,
            expiry: expiry,
            token: try Self.token(in: request.query, "security-token", headers),
            signature: signature,
            timestamp: text,
            additionalHeaders: [],
            request: request
        )
    }

    private func queryV4(
        _ request: SigningRequest,
        _ headers: RequestHeaders,
        at now: Int64,
        _ skew: Int64
    ) throws(RequestSignatureFailure) -> OSSClaim {
        let query = request.query
        guard try query.single("x-oss-signature-version") == OSSVersion.algorithmV4 else { throw .unsupportedAlgorithm }
        let (accessKeyID, scope) = try scope(try query.single("x-oss-credential"))
        let signature = try AuthorizationParts.signature(try query.single("x-oss-signature"), count: 32)
        let (timestamp, date) = try Self.timestamp(try query.single("x-oss-date"), scope)
        let seconds = try query.single("x-oss-expires")
        guard let first = seconds.utf8.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
            throw .malformed("x-oss-expires")
        }
        guard let lifetime = SigningText.number(seconds), (1...Self.maximumLifetime).contains(lifetime) else {
            throw .lifetimeOutOfRange
        }
        guard date <= now + min(skew, Self.maximumSkew) else { throw .skewed }
        guard now <= date + lifetime else { throw .expired }
        return OSSClaim(
            version: .v4,
            accessKeyID: accessKeyID,
            scope: scope,
            date: date,
            expiry: date + lifetime,
            token: try Self.token(in: query, "x-oss-security-token", headers),
            signature: signature,
            timestamp: timestamp,
            additionalHeaders: try Self.additionalHeaders(try query.optional("x-oss-additional-headers"), headers),
            request: request
        )
    }

    // MARK: Parts of a claim

    func scope(
        _ credential: String
    ) throws(RequestSignatureFailure) -> (accessKeyID: String, scope: OSSScope) {
        let (accessKeyID, scope) = try OSSScope.read(credential)
        guard region == nil || scope.region == region else { throw .wrongRegion }
        return (accessKeyID, scope)
    }

    /// The time of a signature in the header.
    ///
    /// Beside `x-oss-date`, `Date` is not signed, and some clients use their own format for it. Version 1 of the SDK for
    /// Go sends and signs only `Date`.
    private func dateV4(
        _ headers: RequestHeaders,
        _ scope: OSSScope
    ) throws(RequestSignatureFailure) -> (text: String, date: Int64) {
        if let text = try headers.single("x-oss-date"), !text.isEmpty { return try Self.timestamp(text, scope) }
        guard let text = try headers.single("date") else { throw .missingHeader("x-oss-date") }
        guard let date = SigningTime.parse(text) ?? parseDate(text) else { throw .malformed("date") }
        guard SigningTime.format(date).utf8.prefix(8).elementsEqual(scope.day.utf8) else { throw .wrongDay }
        return (text, date)
    }

    static func timestamp(
        _ text: String,
        _ scope: OSSScope
    ) throws(RequestSignatureFailure) -> (text: String, date: Int64) {
        guard let date = SigningTime.parse(text) else { throw .malformed("x-oss-date") }
        guard text.utf8.prefix(8).elementsEqual(scope.day.utf8) else { throw .wrongDay }
        return (text, date)
    }

    private static func token(
        in query: [SigningField],
        _ name: String,
        _ headers: RequestHeaders
    ) throws(RequestSignatureFailure) -> String? {
        if let token = try query.optional(name) { return token }
        return try headers.single("x-oss-security-token")
    }

    /// HMAC-SHA1 in base64.
    static func signatureV1(_ text: String) throws(RequestSignatureFailure) -> String {
        guard Base64.decode(text)?.count == DigestAlgorithm.sha1.byteCount else { throw .malformed("Signature") }
        return text
    }

    private static func additionalHeaders(
        _ list: String?,
        _ headers: RequestHeaders
    ) throws(RequestSignatureFailure) -> [String] {
        guard let list, !list.isEmpty else { return [] }
        // They are signed in order, but the SDK for Python orders the list by first letters only.
        let sorted = list.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
            .sorted { $0.lexicographicallyPrecedes($1) }
            .map { String(Substring($0)) }
        let names = try AuthorizationParts.names(sorted.joined(separator: ";"), "AdditionalHeaders")
        for name in names where !headers.contains(name) { throw .missingHeader(name) }
        return names
    }
}
