internal import Bytes
internal import Digests

/// The versions of OSS signatures.
package enum OSSVersion: Sendable, Equatable {
    /// HMAC-SHA1, `Authorization: OSS …`.
    case v1
    /// HMAC-SHA256, `Authorization: OSS4-HMAC-SHA256 …`.
    case v4

    static let algorithmV4 = "OSS4-HMAC-SHA256"
    static let unsignedPayload = "UNSIGNED-PAYLOAD"
}

/// The signature information in a request to OSS; not verified yet.
///
/// `OSSVerifier.claim` has checked everything except the signature and the token, which need the secret.
package struct OSSClaim: Sendable {
    package let version: OSSVersion
    /// The id of the secret to look up.
    package let accessKeyID: String
    /// Only in version 4.
    package let scope: OSSScope?
    /// When it was signed, Unix seconds; `nil` in a query of version 1, which does not contain it.
    package let date: Int64?
    /// The last second in which a signature in a query is valid, Unix seconds; `nil` for one in `Authorization`.
    package let expiry: Int64?
    package let token: String?
    /// As received: base64 in version 1, hexadecimal in version 4.
    package let signature: String

    /// The date line in its signed form.
    let timestamp: String
    let additionalHeaders: [String]
    let request: SigningRequest
}

extension OSSClaim {
    /// Whether the client's clock differs too much; a signature in a query has an expiry instead.
    package func isSkewed(at now: Int64, by skew: Int64 = OSSVerifier.maximumSkew) -> Bool {
        guard expiry == nil, let date else { return false }
        return abs(now - date) > min(skew, OSSVerifier.maximumSkew)
    }

    /// What the client should have signed for `resource`; sent with `SignatureDoesNotMatch`.
    ///
    /// Contains the token of the request, but no secret.
    package func stringToSign(for resource: OSSResource) -> String {
        guard let scope else {
            return OSSCanonical.stringToSign(request, resource: resource, date: timestamp)
        }
        return OSSCanonical.stringToSign(
            canonicalRequest: canonicalRequest(of: resource),
            timestamp: timestamp,
            scope: scope
        )
    }

    /// The canonical request of version 4 for `resource`; `nil` in version 1, which has none.
    package func canonicalRequest(for resource: OSSResource) -> String? {
        scope == nil ? nil : canonicalRequest(of: resource)
    }

    private func canonicalRequest(of resource: OSSResource) -> String {
        OSSCanonical.request(request, resource: resource, additionalHeaders: additionalHeaders)
    }

    func isSigned(_ resource: OSSResource, secret: String) -> Bool {
        let wanted = OSSCanonical.signature(stringToSign(for: resource), scope: scope, secret: secret)
        return constantTimeEquals(wanted.utf8, signature.utf8)
    }
}

/// The canonical forms of a request, which are signed.
///
/// Sources: OSS documentation, "Include signatures in the Authorization header", "Include a signature in a URL" and their pages
/// for version 4.
enum OSSCanonical {
    /// The string to sign of version 1.
    static func stringToSign(_ request: SigningRequest, resource: OSSResource, date: String) -> String {
        let headers = RequestHeaders(request.headers)
        func value(_ name: String) -> String { headers.values(name).first.map { SigningText.trimmed($0) } ?? "" }
        var text = [request.method, value("content-md5"), value("content-type"), date].joined(separator: "\n") + "\n"
        for name in headers.names where name.hasPrefix("x-oss-") { text += "\(name):\(value(name))\n" }
        let parameters = request.query.filter { OSSSubresource.isSigned($0.name) }
            .sorted { left, right in
                left.name == right.name
                    ? left.value.utf8.lexicographicallyPrecedes(right.value.utf8)
                    : left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
            }
            .map { $0.value.isEmpty ? $0.name : "\($0.name)=\($0.value)" }
        return text + resource.text + (parameters.isEmpty ? "" : "?\(parameters.joined(separator: "&"))")
    }

    /// The canonical request of version 4.
    static func request(
        _ request: SigningRequest,
        resource: OSSResource,
        additionalHeaders: [String]
    ) -> String {
        let headers = RequestHeaders(request.headers)
        let query = request.query.filter { $0.name != "x-oss-signature" }
        var text = "\(request.method)\n\(resource.escapedText)\n\(query.canonical(keepsEquals: false))\n"
        for name in headers.names where isAlwaysSigned(name) || additionalHeaders.contains(name) {
            text += "\(name):\(headers.values(name).map { SigningText.trimmed($0) }.joined(separator: ","))\n"
        }
        return text + "\n\(additionalHeaders.joined(separator: ";"))\n\(OSSVersion.unsignedPayload)"
    }

    static func isAlwaysSigned(_ name: String) -> Bool {
        name == "content-type" || name == "content-md5" || name.hasPrefix("x-oss-")
    }

    static func stringToSign(canonicalRequest: String, timestamp: String, scope: OSSScope) -> String {
        let hash = Hexadecimal.encode(Digest.hash(canonicalRequest.utf8, .sha256))
        return "\(OSSVersion.algorithmV4)\n\(timestamp)\n\(scope.text)\n\(hash)"
    }

    /// The signature of a text; of version 4 if there is a scope.
    static func signature(_ stringToSign: String, scope: OSSScope?, secret: String) -> String {
        let message = Array(stringToSign.utf8)
        return if let scope {
            Hexadecimal.encode(scope.key(secret).code(for: message))
        } else {
            Base64.encode(HMAC.code(.sha1, key: Array(secret.utf8), message: message))
        }
    }
}
