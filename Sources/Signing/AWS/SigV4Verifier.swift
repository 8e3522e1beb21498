internal import Digests

/// Verifies requests that are signed with AWS Signature Version 4, in `Authorization` or in the query.
///
/// In two steps, because the secret comes from elsewhere:
///
///     let claim = try verifier.claim(request, at: now)
///     let credentials = …                               // of claim.accessKeyID
///     let signature = try verifier.verify(claim, credentials: credentials)
///
/// The caller must check that the content matches `payload` of the claim. The signature is the seed for chunked
/// content.
package struct SigV4Verifier: Sendable {
    /// Maximum clock difference in seconds ("RequestTimeTooSkewed", Amazon S3 API Reference, "Error responses").
    package static let maximumSkew: Int64 = 900

    private let region: String?
    private let service: String
    private let rules: SigV4Rules
    private let keys: SigV4Keys

    /// - Parameters:
    ///   - region: Required region in the scope; `nil` for any.
    ///   - service: Required service in the scope.
    ///   - rules: The rules of the service.
    ///   - keys: Caches derived keys.
    package init(region: String?, service: String = "s3", rules: SigV4Rules = .s3, keys: SigV4Keys = SigV4Keys()) {
        self.region = region
        self.service = service
        self.rules = rules
        self.keys = keys
    }

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - request: With all its headers, and `payload` and `date` as received.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    /// - Returns: The claim.
    /// - Throws: The first problem found: any failure except `.wrongToken` and `.wrongSignature`.
    package func claim(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> SigV4Claim {
        let headers = RequestHeaders(request.headers)
        let parts = try parts(of: request, headers)
        let (accessKeyID, scope) = try parts.scope()
        guard region == nil || scope.region == region else { throw .wrongRegion }
        guard scope.service == service else { throw .wrongService }
        try check(parts.signedHeaders, of: headers)

        let date = try date(parts, headers, request)
        let timestamp = SigningTime.format(date)
        guard timestamp.utf8.prefix(8).elementsEqual(scope.day.utf8) else { throw .wrongDay }
        let lifetime = try lifetime(parts)
        let skew = min(skew, Self.maximumSkew)
        guard date <= now + skew else { throw .skewed }
        if let lifetime {
            guard now < date + lifetime else { throw .expired }
        } else {
            guard date >= now - skew else { throw .skewed }
        }
        return SigV4Claim(
            accessKeyID: accessKeyID,
            scope: scope,
            date: date,
            payload: try payload(parts, headers, request),
            lifetime: lifetime,
            signedHeaders: parts.signedHeaders,
            token: parts.isQuery ? parts.token : try headers.single("x-amz-security-token"),
            timestamp: timestamp,
            signature: parts.signature,
            request: request,
            query: parts.isQuery ? request.query.filter { $0.name != "X-Amz-Signature" } : request.query
        )
    }

    /// Verifies signature and token of a claim in constant time.
    ///
    /// - Parameters:
    ///   - claim: A claim of this verifier.
    ///   - credentials: The credentials of `claim.accessKeyID`.
    /// - Returns: The signature, the seed for the signatures of chunks.
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(
        _ claim: SigV4Claim,
        credentials: SigningCredentials
    ) throws(RequestSignatureFailure) -> SigV4Signature {
        let canonical = SigV4CanonicalRequest.text(
            of: claim.request,
            query: claim.query,
            signedHeaders: claim.signedHeaders,
            payload: claim.payload,
            rules: rules
        )
        let signature = SigV4Signature(
            canonicalRequest: canonical,
            timestamp: claim.timestamp,
            scope: claim.scope,
            key: keys.key(for: credentials, scope: claim.scope)
        )
        let isSigned = constantTimeEquals(signature.text.utf8, claim.signature.utf8)
        try credentials.check(accessKeyID: claim.accessKeyID, isSigned: isSigned, token: claim.token)
        return signature
    }

    // MARK: Parts of a claim

    private func parts(of request: SigningRequest, _ headers: RequestHeaders) throws(RequestSignatureFailure)
        -> SigV4Parts
    {
        let authorization = try headers.single("authorization")
        if SigV4Parts.areIn(request.query) {
            guard authorization == nil else { throw .twoSignatures }
            return try SigV4Parts(query: request.query)
        }
        guard let authorization else { throw .noSignature }
        return try SigV4Parts(authorization: authorization)
    }

    /// "Signature Calculations for the Authorization Header", task 1: `host` and all `x-amz-*` must be signed.
    private func check(_ signedHeaders: [String], of headers: RequestHeaders) throws(RequestSignatureFailure) {
        guard try headers.single("host") != nil else { throw .missingHeader("host") }
        for name in headers.names where name == "host" || name.hasPrefix("x-amz-") {
            guard signedHeaders.contains(name) else { throw .unsignedHeader(name) }
        }
        for name in signedHeaders where !headers.contains(name) { throw .missingHeader(name) }
    }

    /// `X-Amz-Date`; with `Authorization`, the header of that name or `Date`, which can have either format.
    private func date(
        _ parts: SigV4Parts,
        _ headers: RequestHeaders,
        _ request: SigningRequest
    ) throws(RequestSignatureFailure) -> Int64 {
        if let text = parts.isQuery ? parts.date : try headers.single("x-amz-date") {
            guard let date = SigningTime.parse(text) else { throw .malformed("X-Amz-Date") }
            return date
        }
        guard let text = try headers.single("date") else { throw .missingHeader("x-amz-date") }
        guard parts.signedHeaders.contains("date") else { throw .unsignedHeader("date") }
        guard let date = SigningTime.parse(text) ?? request.date else { throw .malformed("Date") }
        return date
    }

    private func lifetime(_ parts: SigV4Parts) throws(RequestSignatureFailure) -> Int64? {
        guard let text = parts.lifetime else { return nil }
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), !text.isEmpty else {
            throw .malformed("X-Amz-Expires")
        }
        guard let lifetime = Int64(text), (1...SigV4Signer.maximumLifetime).contains(lifetime) else {
            throw .lifetimeOutOfRange
        }
        return lifetime
    }

    private func payload(
        _ parts: SigV4Parts,
        _ headers: RequestHeaders,
        _ request: SigningRequest
    ) throws(RequestSignatureFailure) -> SigV4Payload {
        let name = "x-amz-content-sha256"
        if let text = try headers.single(name) {
            guard let payload = SigV4Payload(text) else { throw .malformed(name) }
            return payload
        }
        guard rules.needsPayloadHeader else { return request.payload }
        guard parts.isQuery else { throw .missingHeader(name) }
        // "Authenticating Requests: Using Query Parameters": the content is unknown when the URL is made. Some signers
        // put the header into the query.
        let values = request.query.filter { $0.name == "X-Amz-Content-Sha256" }
        guard values.count <= 1 else { throw .duplicate("X-Amz-Content-Sha256") }
        guard let text = values.first?.value else { return .unsigned }
        guard let payload = SigV4Payload(text) else { throw .malformed("X-Amz-Content-Sha256") }
        return payload
    }
}
