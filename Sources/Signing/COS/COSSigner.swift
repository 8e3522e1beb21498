/// Signs requests for Tencent Cloud COS; see `COSVerifier`.
package struct COSSigner: Sendable {
    let credentials: SigningCredentials

    package init(credentials: SigningCredentials) {
        self.credentials = credentials
    }

    /// Signs a request in its header `Authorization`.
    ///
    /// - Parameters:
    ///   - request: With path and query as sent; all parameters and headers are signed.
    ///   - window: The validity of the signature.
    /// - Returns: The fields to add to the request, in lower case; they replace fields of the same name.
    package func sign(_ request: SigningRequest, window: COSWindow) -> [SigningField] {
        var fields: [SigningField] = []
        if let token = credentials.sessionToken { fields.append(SigningField("x-cos-security-token", token)) }
        let headers =
            request.headers.filter {
                !["authorization", "x-cos-security-token"].contains(SigningText.lowercased($0.name))
            } + fields
        let parts = parts(request, headers: headers, parameters: request.query, window: window)
        let text = parts.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
        return fields + [SigningField("authorization", text)]
    }

    /// Presigns a request: anyone with the URL can send it.
    ///
    /// - Parameters:
    ///   - request: All its parameters and headers are signed; the sender must include them.
    ///   - window: The validity of the signature.
    /// - Returns: The complete decoded query, including the signature.
    package func presign(_ request: SigningRequest, window: COSWindow) -> [SigningField] {
        let token = "x-cos-security-token"
        let query = request.query.filter { $0.name != token && !COSVerifier.names.contains($0.name) }
        let parts = parts(request, headers: request.headers, parameters: query, window: window)
        return query + parts + (credentials.sessionToken.map { [SigningField(token, $0)] } ?? [])
    }

    private func parts(
        _ request: SigningRequest,
        headers: [SigningField],
        parameters: [SigningField],
        window: COSWindow
    ) -> [SigningField] {
        let headers = Self.sorted(headers)
        let parameters = Self.sorted(parameters)
        let form = COSCanonical.form(
            method: request.method,
            path: COSVerifier.path(request.path),
            parameters: parameters,
            headers: headers
        )
        let signature = COSCanonical.signature(
            COSCanonical.stringToSign(signTime: window.text, form: form),
            keyTime: window.text,
            secret: credentials.secretAccessKey
        )
        func list(_ fields: [SigningField]) -> String {
            fields.map { COSCanonical.name($0.name) }.joined(separator: ";")
        }
        return [
            SigningField("q-sign-algorithm", "sha1"),
            SigningField("q-ak", credentials.accessKeyID),
            SigningField("q-sign-time", window.text),
            SigningField("q-key-time", window.text),
            SigningField("q-header-list", list(headers)),
            SigningField("q-url-param-list", list(parameters)),
            SigningField("q-signature", signature),
        ]
    }

    /// Ordered by name as listed; fields of the same name keep their order.
    private static func sorted(_ fields: [SigningField]) -> [SigningField] {
        fields.enumerated()
            .map { (name: COSCanonical.name($0.element.name), index: $0.offset, field: $0.element) }
            .sorted { left, right in
                left.name == right.name
                    ? left.index < right.index : left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
            }
            .map(\.field)
    }
}
