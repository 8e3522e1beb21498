internal import Bytes
internal import Digests

/// The time in which a signature of COS is valid, both ends included, in Unix seconds.
package struct COSWindow: Sendable, Equatable {
    package let start: Int64
    package let end: Int64

    package init(start: Int64, end: Int64) {
        self.start = start
        self.end = end
    }

    /// As in `q-sign-time`.
    var text: String { "\(start);\(end)" }
}

/// The signature information in a request to COS; not verified yet.
///
/// `COSVerifier.claim` has checked everything except the signature and the token, which need the secret.
package struct COSClaim: Sendable {
    /// The id of the secret to look up.
    package let secretID: String
    package let signTime: COSWindow
    package let keyTime: COSWindow
    /// Whether the signature is in the query, so that anyone with the URL can send the request.
    package let isQuery: Bool
    /// In lower case, as listed; the sender can change all other headers.
    package let signedHeaders: [String]
    /// In lower case, as listed; the sender can change all other parameters.
    package let signedParameters: [String]
    /// Not necessarily signed.
    package let token: String?
    /// 40 hexadecimal digits in lower case.
    package let signature: String

    /// The windows as received.
    let signTimeText: String
    let keyTimeText: String
    let method: String
    let path: [UInt8]
    let parameters: [SigningField]
    let headers: [SigningField]
    /// The values of `host` that the client may have signed.
    let hosts: [String]
}

extension COSClaim {
    /// The last second in which the signature is valid, Unix seconds.
    package var end: Int64 { min(signTime.end, keyTime.end) }

    /// What the client should have signed; sent with `SignatureDoesNotMatch`.
    ///
    /// Contains parts of the request, but no secret.
    package var stringToSign: String { stringToSign(host: hosts.first) }

    /// The form of the request whose hash is in the string to sign.
    package var formatString: String { String(decoding: form(host: hosts.first), as: UTF8.self) }

    private func form(host: String?) -> [UInt8] {
        COSCanonical.form(
            method: method,
            path: path,
            parameters: parameters,
            headers: headers.map { $0.name == "host" ? SigningField("host", host ?? $0.value) : $0 }
        )
    }

    private func stringToSign(host: String?) -> String {
        COSCanonical.stringToSign(signTime: signTimeText, form: form(host: host))
    }

    func isSigned(secret: String) -> Bool {
        let hosts: [String?] = signedHeaders.contains("host") ? hosts : [nil]
        return hosts.contains { host in
            let wanted = COSCanonical.signature(stringToSign(host: host), keyTime: keyTimeText, secret: secret)
            return constantTimeEquals(wanted.utf8, signature.utf8)
        }
    }
}

/// The canonical form of a request, which is signed ("Request signature", COS documentation, 436/7778).
enum COSCanonical {
    /// - Parameters:
    ///   - method: In any case.
    ///   - path: Decoded, with a leading slash.
    ///   - parameters: The signed parameters, in the listed order.
    ///   - headers: The signed headers, in the listed order.
    /// - Returns: Four lines, each with its line end.
    static func form(
        method: String,
        path: [UInt8],
        parameters: [SigningField],
        headers: [SigningField]
    ) -> [UInt8] {
        Array("\(SigningText.lowercased(method))\n".utf8) + path
            + Array("\n\(pairs(parameters))\n\(pairs(headers))\n".utf8)
    }

    static func stringToSign(signTime: String, form: [UInt8]) -> String {
        "sha1\n\(signTime)\n\(Hexadecimal.encode(Digest.hash(form, .sha1)))\n"
    }

    static func signature(_ stringToSign: String, keyTime: String, secret: String) -> String {
        // The key is the hexadecimal text, not the bytes.
        let key = Hexadecimal.encode(HMAC.code(.sha1, key: Array(secret.utf8), message: Array(keyTime.utf8)))
        return Hexadecimal.encode(HMAC.code(.sha1, key: Array(key.utf8), message: Array(stringToSign.utf8)))
    }

    /// A name in the form in which it is listed and signed.
    static func name(_ name: String) -> String { SigningText.lowercased(SigningText.escaped(name)) }

    private static func pairs(_ fields: [SigningField]) -> String {
        fields.map { "\(name($0.name))=\(SigningText.escaped($0.value))" }.joined(separator: "&")
    }
}
