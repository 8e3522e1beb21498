internal import Bytes
internal import Digests

/// Signs requests with AWS Signature Version 4, in headers, in the query or in a form.
///
/// Sources: "AWS Signature Version 4 for API requests", AWS IAM User Guide; "Authenticating Requests (AWS Signature Version
/// 4)", Amazon S3 API Reference.
package struct SigV4Signer: Sendable {
    /// Maximum lifetime of a signature in a query: 7 days, in seconds.
    package static let maximumLifetime: Int64 = 604_800

    private let credentials: SigningCredentials
    private let region: String
    private let service: String
    private let rules: SigV4Rules
    private let keys: SigV4Keys

    /// A signer for one service in one region.
    ///
    /// - Parameters:
    ///   - credentials: The signing credentials.
    ///   - region: The name in the credential scope.
    ///   - service: The name in the credential scope.
    ///   - rules: The rules of the service.
    ///   - keys: A cache of derived keys, which signers can share.
    package init(
        credentials: SigningCredentials,
        region: String,
        service: String = "s3",
        rules: SigV4Rules = .s3,
        keys: SigV4Keys = SigV4Keys(capacity: 2)
    ) {
        self.credentials = credentials
        self.region = region
        self.service = service
        self.rules = rules
        self.keys = keys
    }

    /// Fields that connections, proxies or HTTP libraries can change; never signed.
    private static let unsignedHeaders: Set<String> = [
        "connection", "expect", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
        "transfer-encoding", "upgrade", "user-agent", "x-amzn-trace-id",
    ]

    /// Fields that the signer sets.
    private static let ownHeaders: Set<String> = [
        "authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token",
    ]

    /// Parameters that the signer sets.
    private static let ownParameters: Set<String> = [
        "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Signature",
        "X-Amz-SignedHeaders",
    ]

    /// Signs a request in its header `Authorization` ("Signature Calculations for the Authorization Header").
    ///
    /// - Parameters:
    ///   - request: All its headers are signed, except those that intermediaries change.
    ///   - now: Unix seconds.
    /// - Returns: The fields to add to the request, in lower case; they replace fields of the same name.
    ///   Also the signature.
    package func sign(_ request: SigningRequest, at now: Int64) -> (fields: [SigningField], signature: SigV4Signature) {
        let timestamp = SigningTime.format(now)
        var fields = [SigningField("x-amz-date", timestamp)]
        if rules.needsPayloadHeader { fields.append(SigningField("x-amz-content-sha256", request.payload.text)) }
        if let token = credentials.sessionToken { fields.append(SigningField("x-amz-security-token", token)) }

        var signed = request
        signed.headers = headersToSign(request) + fields
        let names = SigV4CanonicalRequest.names(of: signed.headers)
        let signature = signature(of: signed, query: request.query, signedHeaders: names, timestamp: timestamp)
        fields.append(
            SigningField(
                "authorization",
                "\(SigV4Signature.algorithm) Credential=\(credentials.accessKeyID)/\(signature.scope.text), "
                    + "SignedHeaders=\(names.joined(separator: ";")), Signature=\(signature.text)"
            )
        )
        return (fields, signature)
    }

    /// Presigns a request ("Authenticating Requests: Using Query Parameters"): anyone with the URL can send it.
    ///
    /// With the rules of S3, the payload of the request is usually `.unsigned`.
    ///
    /// - Parameters:
    ///   - request: All its headers are signed, except those that intermediaries change; the sender must include them.
    ///   - now: Unix seconds.
    ///   - lifetime: Validity in seconds, clamped to 1…604800.
    /// - Returns: The complete decoded query, including the signature; `SigningRequest.query(of:)` writes it.
    package func presign(_ request: SigningRequest, at now: Int64, lifetime: Int64) -> [SigningField] {
        let timestamp = SigningTime.format(now)
        var signed = request
        signed.headers = headersToSign(request)
        let names = SigV4CanonicalRequest.names(of: signed.headers)
        var query = request.query.filter { !Self.ownParameters.contains($0.name) }
        query += [
            SigningField("X-Amz-Algorithm", SigV4Signature.algorithm),
            SigningField("X-Amz-Credential", "\(credentials.accessKeyID)/\(scope(of: timestamp).text)"),
            SigningField("X-Amz-Date", timestamp),
            SigningField("X-Amz-Expires", String(min(max(lifetime, 1), Self.maximumLifetime))),
            SigningField("X-Amz-SignedHeaders", names.joined(separator: ";")),
        ]
        if let token = credentials.sessionToken { query.append(SigningField("X-Amz-Security-Token", token)) }
        let signature = signature(of: signed, query: query, signedHeaders: names, timestamp: timestamp)
        return query + [SigningField("X-Amz-Signature", signature.text)]
    }

    /// Signs the policy of a form ("Authenticating Requests in Browser-Based Uploads Using POST", Amazon S3 API Reference).
    ///
    /// - Parameters:
    ///   - policy: Makes the policy, JSON in base64; its conditions must include all `fields`.
    ///   - now: Unix seconds.
    /// - Returns: The signature fields of the form.
    package func form(policy: (_ fields: [SigningField]) -> String, at now: Int64) -> [SigningField] {
        let timestamp = SigningTime.format(now)
        let scope = scope(of: timestamp)
        var fields = [
            SigningField("x-amz-algorithm", SigV4Signature.algorithm),
            SigningField("x-amz-credential", "\(credentials.accessKeyID)/\(scope.text)"),
            SigningField("x-amz-date", timestamp),
        ]
        if let token = credentials.sessionToken { fields.append(SigningField("x-amz-security-token", token)) }
        let policy = policy(fields)
        let signature = Hexadecimal.encode(keys.key(for: credentials, scope: scope).code(for: policy.utf8))
        return fields + [SigningField("policy", policy), SigningField("x-amz-signature", signature)]
    }

    private func headersToSign(_ request: SigningRequest) -> [SigningField] {
        request.headers.filter { header in
            let name = SigningText.lowercased(header.name)
            return !Self.unsignedHeaders.contains(name) && !Self.ownHeaders.contains(name)
        }
    }

    private func signature(
        of request: SigningRequest,
        query: [SigningField],
        signedHeaders: [String],
        timestamp: String
    ) -> SigV4Signature {
        let scope = scope(of: timestamp)
        return SigV4Signature(
            canonicalRequest: SigV4CanonicalRequest.text(
                of: request,
                query: query,
                signedHeaders: signedHeaders,
                payload: request.payload,
                rules: rules
            ),
            timestamp: timestamp,
            scope: scope,
            key: keys.key(for: credentials, scope: scope)
        )
    }

    private func scope(of timestamp: String) -> SigV4Scope {
        SigV4Scope(day: String(timestamp.prefix(8)), region: region, service: service)
    }
}
