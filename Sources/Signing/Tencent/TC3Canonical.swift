internal import Bytes
internal import Digests

/// The scope of a signing key of TC3: one day and one service.
struct TC3Scope: Sendable, Equatable {
    /// `YYYY-MM-DD`, UTC.
    let day: String
    let service: String

    static let terminator = "tc3_request"

    var text: String { "\(day)/\(service)/\(Self.terminator)" }

    func key(_ secret: String) -> HMACKey {
        SigningKey.derive(from: "TC3\(secret)", over: [day, service, Self.terminator])
    }
}

/// The canonical form of a request, which is signed ("Signature method v3", Tencent Cloud API documentation).
enum TC3Canonical {
    static let algorithm = "TC3-HMAC-SHA256"

    /// Differences between clients.
    struct Style {
        /// Whether header values are in lower case, as documented; the SDKs do not change them.
        let lowercasesValues: Bool
        /// Whether a space in the query is `+`, as in the SDKs; otherwise `%20`.
        let writesPlus: Bool

        static let sdk = Style(lowercasesValues: false, writesPlus: true)
        static let all = [
            sdk, Style(lowercasesValues: true, writesPlus: false), Style(lowercasesValues: false, writesPlus: false),
            Style(lowercasesValues: true, writesPlus: true),
        ]
    }

    /// The canonical request.
    ///
    /// - Parameters:
    ///   - request: Its query must have the order in which it is sent.
    ///   - signedHeaders: Names in lower case, in order.
    ///   - payload: SHA-256 of the signed content.
    ///   - style: How the client writes it.
    /// - Returns: The text to hash.
    static func request(
        _ request: SigningRequest,
        signedHeaders: [String],
        payload: [UInt8],
        style: Style
    ) -> String {
        let headers = RequestHeaders(request.headers)
        let query = request.query.map { "\(SigningText.escaped($0.name))=\(SigningText.escaped($0.value))" }
            .joined(separator: "&")
        var text = "\(request.method)\n\(request.path.isEmpty ? "/" : request.path)\n"
        text += style.writesPlus ? query.replacing("%20", with: "+") : query
        text += "\n"
        for name in signedHeaders {
            let value = headers.values(name).map { SigningText.trimmed($0) }.joined(separator: ",")
            text += "\(name):\(style.lowercasesValues ? SigningText.lowercased(value) : value)\n"
        }
        return text + "\n\(signedHeaders.joined(separator: ";"))\n\(Hexadecimal.encode(payload))"
    }

    static func stringToSign(canonicalRequest: String, timestamp: String, scope: TC3Scope) -> String {
        let hash = Hexadecimal.encode(Digest.hash(canonicalRequest.utf8, .sha256))
        return "\(algorithm)\n\(timestamp)\n\(scope.text)\n\(hash)"
    }

    static func signature(_ stringToSign: String, key: HMACKey) -> String {
        Hexadecimal.encode(key.code(for: Array(stringToSign.utf8)))
    }

    /// The last line: SHA-256 of the content, or of the text for unsigned content.
    static func hash(of payload: SigV4Payload) -> [UInt8] {
        if case .sha256(let hash) = payload { return hash }
        return Digest.hash(payload.text.utf8, .sha256)
    }
}
