internal import Bytes
internal import Digests

/// Seconds in which a signature of COS is in force, both ends included, Unix seconds.
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

/// What a request to COS says about its signature; nobody has vouched for it.
///
/// It is what `COSVerifier.claim` found in order, all but the signature and the token, for which the secret is needed.
package struct COSClaim: Sendable {
    /// Whose secret is to be looked up.
    package let secretID: String
    package let signTime: COSWindow
    package let keyTime: COSWindow
    /// Whether the signature is in the query, so that who has the URL may send the request.
    package let isQuery: Bool
    /// Names in lower case, as they were listed; all others can be changed by who sends the request.
    package let signedHeaders: [String]
    /// Names in lower case, as they were listed; all others can be changed by who sends the request.
    package let signedParameters: [String]
    /// It need not be signed.
    package let token: String?
    /// 40 hexadecimal digits in lower case.
    package let signature: String

    /// The windows as they came.
    let signTimeText: String
    let keyTimeText: String
    let method: String
    let path: [UInt8]
    let parameters: [SigningField]
    let headers: [SigningField]
    /// What a client may have signed as `host`.
    let hosts: [String]
}

extension COSClaim {
    /// What the client should have signed; answered beside `SignatureDoesNotMatch`.
    ///
    /// It holds what the request holds, and no secret.
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

/// The form of a request that both sides sign ("Request signature", COS documentation, 436/7778).
enum COSCanonical {
    /// - Parameters:
    ///   - method: In any case.
    ///   - path: Decoded, with a slash in front.
    ///   - parameters: Those that are signed, in the order in which they are listed.
    ///   - headers: Those that are signed, in the order in which they are listed.
    /// - Returns: Four lines, each with its end.
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
        // The key is the text in hexadecimal, not the bytes.
        let key = Hexadecimal.encode(HMAC.code(.sha1, key: Array(secret.utf8), message: Array(keyTime.utf8)))
        return Hexadecimal.encode(HMAC.code(.sha1, key: Array(key.utf8), message: Array(stringToSign.utf8)))
    }

    /// A name as it is listed and signed.
    static func name(_ name: String) -> String { SigningText.lowercased(SigningText.escaped(name)) }

    private static func pairs(_ fields: [SigningField]) -> String {
        fields.map { "\(name($0.name))=\(SigningText.escaped($0.value))" }.joined(separator: "&")
    }
}
