internal import HTTPWire

/// Who is sent interim answers (104 of "Resumable Uploads for HTTP").
///
/// A proxy has to pass them on (RFC 9110 §15.2), but some do not: nginx takes one for the final answer, of unknown length, and
/// everything that follows for its content. Its client may see no answer until the connection behind is closed, and none
/// to its next request.
struct InterimResponses: Sendable {
    let policy: Settings.Uploads.InterimResponses
    let publicURL: PublicURL

    /// Whether interim answers can be sent, and arrive as such.
    func reachClient(of request: Request) -> Bool {
        guard request.head.version != .http1_0 else { return false }
        switch policy {
        case .always: return true
        case .never: return false
        case .direct: return !isRelayed(request)
        }
    }

    /// Whether there is a proxy, as far as it can be told.
    ///
    /// Anybody may write the fields: who does so without being a proxy goes without interim answers.
    private func isRelayed(_ request: Request) -> Bool {
        if publicURL.trusts(request.peerAddress) { return true }
        // Somebody else has the certificate.
        if !request.isEncrypted, publicURL.configured?.hasPrefix("https:") == true { return true }
        return Self.fieldsOfProxies.contains { request.head.fields.contains($0) }
    }

    /// RFC 9110 §7.6.3, RFC 7239, RFC 8586, and what is usual without one.
    private static let fieldsOfProxies: [FieldName] = [
        "Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "CDN-Loop",
    ]
}
