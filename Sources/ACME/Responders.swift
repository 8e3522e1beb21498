internal import Digests
internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import Signing
internal import Synchronization
internal import Transport

/// TLS-ALPN-01 (RFC 8737).
struct HandshakeResponder: ChallengeResponder {
    let type = "tls-alpn-01"
    let challenges: TLSChallenges

    func begin(_ name: String, token: String, authorization: String) throws(ACMEFailure) {
        let digest = Digest.hash(Array(authorization.utf8), .sha256)
        let certificate = SelfSignedCertificate(
            validating: name,
            digest: digest,
            at: Int64(Date().timeIntervalSince1970)
        )
        do throws(TLSFailure) {
            try challenges.set(TLSIdentity(certificate: certificate.encoded, key: certificate.key.encoded), for: name)
        } catch {
            throw .storage(error.description)
        }
    }

    func end(_ name: String, token: String) { challenges.remove(name) }
}

/// HTTP-01 (RFC 8555 §8.3), and the handler of its listener, which serves nothing else.
final class RequestResponder: ChallengeResponder, RequestHandler {
    let type = "http-01"
    private let pending = Mutex<[String: String]>([:])

    func begin(_ name: String, token: String, authorization: String) {
        pending.withLock { $0[token] = authorization }
    }

    func end(_ name: String, token: String) { pending.withLock { $0[token] = nil } }

    func respond(to request: Request) async -> Response {
        let segments = request.head.target.segments
        let isKnown = request.head.method == .get || request.head.method == .head
        guard isKnown, segments.count == 3, segments.starts(with: [".well-known", "acme-challenge"]),
            let authorization = pending.withLock({ $0[segments[2]] })
        else {
            return Response(404, ["Content-Type": "text/plain"], .bytes(Array("there is nothing here\n".utf8)))
        }
        var response = Response(200, ["Content-Type": "application/octet-stream"], .bytes(Array(authorization.utf8)))
        response.trace.route = "/.well-known/acme-challenge/{token}"
        return response
    }
}
