/// Signs requests to the API of Tencent Cloud with TC3-HMAC-SHA256; see `TC3Verifier`.
package struct TC3Signer: Sendable {
    private let credentials: SigningCredentials
    private let service: String

    /// A signer for one service.
    ///
    /// - Parameters:
    ///   - credentials: The signing credentials.
    ///   - service: The name in the credential scope, such as `vod`.
    package init(credentials: SigningCredentials, service: String) {
        self.credentials = credentials
        self.service = service
    }

    /// Signs a request in its header `Authorization`.
    ///
    /// - Parameters:
    ///   - request: With the headers to send, including `content-type` and `host`, which are signed. Its query must be
    /// sent in this
    ///     order, with `+` for a space.
    ///   - additionalHeaders: Lower-case names of headers to sign in addition to these two.
    ///   - now: Unix seconds.
    /// - Returns: The fields to add to the request, in lower case; they replace fields of the same name.
    package func sign(
        _ request: SigningRequest,
        additionalHeaders: [String] = [],
        at now: Int64
    ) -> [SigningField] {
        var fields = [SigningField("x-tc-timestamp", String(now))]
        if let token = credentials.sessionToken { fields.append(SigningField("x-tc-token", token)) }
        if request.payload == .unsigned {
            fields.append(SigningField("x-tc-content-sha256", SigV4Payload.unsigned.text))
        }
        let names = Set(["content-type", "host"] + additionalHeaders)
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        let scope = TC3Scope(day: SigningTime.day(now), service: service)
        let canonical = TC3Canonical.request(
            request,
            signedHeaders: names,
            payload: TC3Canonical.hash(of: request.payload),
            style: .sdk
        )
        let text = TC3Canonical.stringToSign(canonicalRequest: canonical, timestamp: String(now), scope: scope)
        let signature = TC3Canonical.signature(text, key: scope.key(credentials.secretAccessKey))
        return fields + [
            SigningField(
                "authorization",
                "\(TC3Canonical.algorithm) Credential=\(credentials.accessKeyID)/\(scope.text), "
                    + "SignedHeaders=\(names.joined(separator: ";")), Signature=\(signature)"
            )
        ]
    }
}
