internal import Bytes
internal import Digests

/// Names made from other texts.
enum VimeoDigest {
    /// The first bytes of the SHA-256 of a text, as lower-case hexadecimal digits.
    static func hexadecimal(_ text: String, _ bytes: Int) -> String {
        Hexadecimal.encode(Digest.hash(Array(text.utf8), .sha256).prefix(bytes))
    }
}
