/// Signs requests as Tencent Cloud COS wants it; see `COSVerifier`.
package struct COSSigner: Sendable {
    let credentials: SigningCredentials

    package init(credentials: SigningCredentials) {
        self.credentials = credentials
    }

    /// Signs a request in its header `Authorization`.
    ///
    /// - Parameters:
    ///   - request: With the path and the query that are sent; all parameters are signed, and of its headers all.
    ///   - window: When the signature is in force.
    /// - Returns: The fields to send beside those of the request, in lower case and in place of such that it has.
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

    /// Signs a request in its query, so that who has the URL may send it.
    ///
    /// - Parameters:
    ///   - request: All its parameters are signed, and of its headers all; who sends it must send them.
    ///   - window: When the signature is in force.
    /// - Returns: The whole query, decoded: that of the request and the signature.
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

    /// In the order of the names as they are listed; those of one name in the order in which they came.
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
