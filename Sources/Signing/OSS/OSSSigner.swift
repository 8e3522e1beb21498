internal import Bytes
internal import Digests

/// Signs requests for Alibaba Cloud OSS; see `OSSVerifier`.
package struct OSSSigner: Sendable {
    /// A version with its parameters.
    package enum Scheme: Sendable {
        /// - Parameter formatDate: Formats Unix seconds as an HTTP date (RFC 9110 §5.6.7).
        case v1(formatDate: @Sendable (Int64) -> String)
        /// - Parameter region: The name in the credential scope, such as `cn-shanghai`.
        case v4(region: String)
    }

    private let credentials: SigningCredentials
    private let scheme: Scheme

    package init(credentials: SigningCredentials, scheme: Scheme) {
        self.credentials = credentials
        self.scheme = scheme
    }

    /// Signs a request in its header `Authorization`.
    ///
    /// - Parameters:
    ///   - request: With the headers to send; its path is ignored.
    ///   - resource: The resource of the request.
    ///   - additionalHeaders: Lower-case names of headers to sign in addition to the default ones; version 1 signs
    /// none.
    ///   - now: Unix seconds.
    /// - Returns: The fields to add to the request, in lower case; they replace fields of the same name.
    package func sign(
        _ request: SigningRequest,
        resource: OSSResource,
        additionalHeaders: [String] = [],
        at now: Int64
    ) -> [SigningField] {
        var fields: [SigningField] = []
        if let token = credentials.sessionToken { fields.append(SigningField("x-oss-security-token", token)) }
        var signed = request
        switch scheme {
        case .v1(let formatDate):
            let date = formatDate(now)
            signed.headers = without(["authorization", "date", "x-oss-date", "x-oss-security-token"], request) + fields
            let text = OSSCanonical.stringToSign(signed, resource: resource, date: date)
            let signature = OSSCanonical.signature(text, scope: nil, secret: credentials.secretAccessKey)
            return [SigningField("date", date)] + fields + [
                SigningField("authorization", "OSS \(credentials.accessKeyID):\(signature)")
            ]
        case .v4(let region):
            let timestamp = SigningTime.format(now)
            let scope = OSSScope(day: String(timestamp.prefix(8)), region: region)
            fields += [
                SigningField("x-oss-date", timestamp),
                SigningField("x-oss-content-sha256", OSSVersion.unsignedPayload),
            ]
            signed.headers =
                without(
                    ["authorization", "x-oss-date", "x-oss-content-sha256", "x-oss-security-token"],
                    request
                ) + fields
            let names = Self.sorted(additionalHeaders)
            let signature = signatureV4(signed, resource, names, timestamp, scope)
            let list = names.isEmpty ? "" : "AdditionalHeaders=\(names.joined(separator: ";")),"
            fields.append(
                SigningField(
                    "authorization",
                    "\(OSSVersion.algorithmV4) Credential=\(credentials.accessKeyID)/\(scope.text),\(list)"
                        + "Signature=\(signature)"
                )
            )
            return fields
        }
    }

    /// Presigns a request: anyone with the URL can send it.
    ///
    /// - Parameters:
    ///   - request: With the headers `content-type`, `content-md5` and `x-oss-*` that the sender will include.
    ///   - resource: The resource of the request.
    ///   - additionalHeaders: Lower-case names of headers to sign in addition to the default ones; version 1 signs
    /// none.
    ///   - now: Unix seconds.
    ///   - lifetime: Validity in seconds, at least 1; in version 4 at most 604800. Other values are clamped.
    /// - Returns: The complete decoded query, including the signature.
    package func presign(
        _ request: SigningRequest,
        resource: OSSResource,
        additionalHeaders: [String] = [],
        at now: Int64,
        lifetime: Int64
    ) -> [SigningField] {
        var signed = request
        switch scheme {
        case .v1:
            let (sum, overflow) = now.addingReportingOverflow(max(1, lifetime))
            let expiry = String(overflow ? Int64.max : sum)
            signed.query.removeAll {
                ["OSSAccessKeyId", "Expires", "Signature", "security-token"].contains($0.name)
            }
            if let token = credentials.sessionToken { signed.query.append(SigningField("security-token", token)) }
            let text = OSSCanonical.stringToSign(signed, resource: resource, date: expiry)
            let signature = OSSCanonical.signature(text, scope: nil, secret: credentials.secretAccessKey)
            return signed.query + [
                SigningField("OSSAccessKeyId", credentials.accessKeyID),
                SigningField("Expires", expiry),
                SigningField("Signature", signature),
            ]
        case .v4(let region):
            let timestamp = SigningTime.format(now)
            let scope = OSSScope(day: String(timestamp.prefix(8)), region: region)
            let names = Self.sorted(additionalHeaders)
            var fields = [
                SigningField("x-oss-signature-version", OSSVersion.algorithmV4),
                SigningField("x-oss-credential", "\(credentials.accessKeyID)/\(scope.text)"),
                SigningField("x-oss-date", timestamp),
                SigningField("x-oss-expires", String(min(max(lifetime, 1), OSSVerifier.maximumLifetime))),
            ]
            if !names.isEmpty {
                fields.append(SigningField("x-oss-additional-headers", names.joined(separator: ";")))
            }
            if let token = credentials.sessionToken { fields.append(SigningField("x-oss-security-token", token)) }
            signed.query.removeAll { parameter in
                parameter.name == "x-oss-signature" || fields.contains { $0.name == parameter.name }
            }
            signed.query += fields
            let signature = signatureV4(signed, resource, names, timestamp, scope)
            return signed.query + [SigningField("x-oss-signature", signature)]
        }
    }

    /// Signs the policy of a form ("PostObject").
    ///
    /// - Parameters:
    ///   - policy: Makes the policy, JSON in base64. In version 4 its conditions must include all `fields` except the
    /// policy itself
    ///     and the signature.
    ///   - now: Unix seconds.
    /// - Returns: The signature fields of the form.
    package func form(policy: (_ fields: [SigningField]) -> String, at now: Int64) -> [SigningField] {
        let token = credentials.sessionToken.map { [SigningField("x-oss-security-token", $0)] } ?? []
        switch scheme {
        case .v1:
            let policy = policy(token)
            let signature = OSSCanonical.signature(policy, scope: nil, secret: credentials.secretAccessKey)
            return token + [
                SigningField("OSSAccessKeyId", credentials.accessKeyID),
                SigningField("policy", policy),
                SigningField("Signature", signature),
            ]
        case .v4(let region):
            let timestamp = SigningTime.format(now)
            let scope = OSSScope(day: String(timestamp.prefix(8)), region: region)
            let fields =
                [
                    SigningField("x-oss-signature-version", OSSVersion.algorithmV4),
                    SigningField("x-oss-credential", "\(credentials.accessKeyID)/\(scope.text)"),
                    SigningField("x-oss-date", timestamp),
                ] + token
            let policy = policy(fields)
            let signature = OSSCanonical.signature(policy, scope: scope, secret: credentials.secretAccessKey)
            return fields + [SigningField("policy", policy), SigningField("x-oss-signature", signature)]
        }
    }

    private func signatureV4(
        _ request: SigningRequest,
        _ resource: OSSResource,
        _ additionalHeaders: [String],
        _ timestamp: String,
        _ scope: OSSScope
    ) -> String {
        let canonical = OSSCanonical.request(request, resource: resource, additionalHeaders: additionalHeaders)
        let text = OSSCanonical.stringToSign(canonicalRequest: canonical, timestamp: timestamp, scope: scope)
        return OSSCanonical.signature(text, scope: scope, secret: credentials.secretAccessKey)
    }

    private func without(_ names: Set<String>, _ request: SigningRequest) -> [SigningField] {
        request.headers.filter { !names.contains(SigningText.lowercased($0.name)) }
    }

    private static func sorted(_ names: [String]) -> [String] {
        Set(names).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
}
