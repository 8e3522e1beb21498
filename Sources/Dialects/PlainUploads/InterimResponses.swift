internal import GatewayKit
internal import HTTPWire
internal import RESTKit

/// Decides which clients receive interim responses (104 of "Resumable Uploads for HTTP").
///
/// A proxy has to forward them (RFC 9110 §15.2), but some do not: nginx takes one for the final response of unknown
/// length, and everything after it for its content. Its client may then see no response until the upstream connection
/// closes, and none to its next request. If other proxies share that connection, the next request can be another client's.
struct InterimResponses: Sendable {
    let policy: UploadSettings.InterimResponses
    let publicURL: PublicURL

    /// Whether interim responses can be sent and reach the client.
    func reachClient(of request: Request) -> Bool {
        guard request.head.version != .http1_0 else { return false }
        switch policy {
        case .always: return true
        case .never: return false
        // Without TLS, a proxy that adds no field cannot be told from a client.
        case .direct: return request.isEncrypted && !isRelayed(request)
        }
    }

    /// Whether the request comes from a proxy that uses TLS, too, and says so.
    ///
    /// Any client can send these fields; one that is not a proxy merely gets no interim responses.
    private func isRelayed(_ request: Request) -> Bool {
        publicURL.trusts(request.peerAddress)
            || Self.fieldsOfProxies.contains { request.head.fields.contains($0) }
    }

    /// RFC 9110 §7.6.3, RFC 7239, RFC 8586, and common non-standard fields.
    private static let fieldsOfProxies: [FieldName] = [
        "Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "CDN-Loop",
    ]
}
