internal import Bytes

/// Public keys in PEM (RFC 7468).
package enum PublicKeyFile {
    package enum Failure: Error, Sendable, Equatable {
        /// There is no `PUBLIC KEY` or `CERTIFICATE` in it.
        case noKey
        /// A block that is not an RSA key of 2048 to 8192 bits, a P-256 key or an Ed25519 key.
        case unsupportedKey
        /// It holds a private key, which does not belong here.
        case privateKey
    }

    /// The keys in all blocks of a text, in order; text between the blocks is ignored.
    ///
    /// - Throws: `Failure`; the text is not quoted.
    package static func keys(in text: String) throws(Failure) -> [PublicKey] {
        var keys: [PublicKey] = []
        var block: (label: Substring, content: String)?
        for line in text.split(whereSeparator: \.isNewline) {
            if let label = label(line, "-----BEGIN ") {
                if label.hasSuffix("PRIVATE KEY") { throw .privateKey }
                block = (label, "")
            } else if label(line, "-----END ") != nil {
                if let block { keys.append(try key(block.label, block.content)) }
                block = nil
            } else {
                block?.content += line.filter { !$0.isWhitespace }
            }
        }
        guard !keys.isEmpty, block == nil else { throw .noKey }
        return keys
    }

    private static func label(_ line: Substring, _ prefix: String) -> Substring? {
        var line = line
        while line.last?.isWhitespace == true { line.removeLast() }
        guard line.hasPrefix(prefix), line.hasSuffix("-----") else { return nil }
        return line.dropFirst(prefix.count).dropLast(5)
    }

    private static func key(_ label: Substring, _ content: String) throws(Failure) -> PublicKey {
        guard let bytes = Base64.decode(content) else { throw .unsupportedKey }
        let key: PublicKey? =
            switch label {
            case "PUBLIC KEY": PublicKey(subjectPublicKeyInfo: bytes)
            case "CERTIFICATE": PublicKey(certificate: bytes)
            default: nil
            }
        guard let key else { throw .unsupportedKey }
        return key
    }
}
