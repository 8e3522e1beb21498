internal import COpenSSL

/// AES-256-GCM, NIST SP 800-38D: encrypts bytes and detects changes to them.
package enum AuthenticatedEncryption {
    /// Bytes of a key.
    package static let keyByteCount = 32
    /// Bytes of a nonce.
    ///
    /// Random nonces are safe for 2^32 messages under one key (SP 800-38D §8.3).
    package static let nonceByteCount = 12
    /// Bytes that `seal` adds to the plain text.
    package static let tagByteCount = 16

    /// Encrypts `plain`.
    ///
    /// - Parameters:
    ///   - plain: The bytes to encrypt, less than 2 GiB.
    ///   - key: 32 bytes.
    ///   - nonce: 12 bytes, never used before with this key.
    ///   - associated: Authenticated but not encrypted; `open` must get the same bytes.
    /// - Returns: The cipher text, as long as `plain`, followed by the tag of 16 bytes.
    package static func seal(_ plain: [UInt8], key: [UInt8], nonce: [UInt8], associated: [UInt8]) -> [UInt8] {
        precondition(key.count == keyByteCount && nonce.count == nonceByteCount, "wrong size of key or nonce")
        let context = CipherContext(key: key, nonce: nonce, direction: .encrypt)
        context.authenticate(associated)
        var sealed = context.update(plain[...])
        precondition(context.finish(), "encryption failed")
        sealed += context.tag()
        return sealed
    }

    /// Decrypts what `seal` returned.
    ///
    /// - Returns: `nil` if the sealed bytes, the key, the nonce or the associated bytes were changed, or have a wrong
    ///   size.
    package static func open(_ sealed: [UInt8], key: [UInt8], nonce: [UInt8], associated: [UInt8]) -> [UInt8]? {
        guard key.count == keyByteCount, nonce.count == nonceByteCount, sealed.count >= tagByteCount else { return nil }
        let context = CipherContext(key: key, nonce: nonce, direction: .decrypt)
        context.authenticate(associated)
        let plain = context.update(sealed.dropLast(tagByteCount))
        context.expect(tag: Array(sealed.suffix(tagByteCount)))
        return context.finish() ? plain : nil
    }
}

/// Owns an `EVP_CIPHER_CTX` for one message.
///
/// OpenSSL's calls fail only if memory is short or OpenSSL is broken; these failures trap. A wrong tag returns `false`.
private struct CipherContext: ~Copyable {
    enum Direction: Int32 {
        case decrypt = 0
        case encrypt = 1
    }

    private let pointer: OpaquePointer

    init(key: [UInt8], nonce: [UInt8], direction: Direction) {
        guard let pointer = EVP_CIPHER_CTX_new() else { preconditionFailure("no memory for a cipher") }
        self.pointer = pointer
        // The default length of a GCM nonce is 12 bytes.
        let result = EVP_CipherInit_ex2(pointer, CipherMethod.aes256GCM.pointer, key, nonce, direction.rawValue, nil)
        precondition(result == 1, "a cipher could not be started")
    }

    deinit { EVP_CIPHER_CTX_free(pointer) }

    func authenticate(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        var written: Int32 = 0
        let result = EVP_CipherUpdate(pointer, nil, &written, bytes, Int32(bytes.count))
        precondition(result == 1, "a cipher refused associated bytes")
    }

    func update(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        guard !bytes.isEmpty else { return [] }
        return [UInt8](unsafeUninitializedCapacity: bytes.count) { buffer, initialized in
            var written: Int32 = 0
            let result = bytes.withUnsafeBufferPointer { input in
                EVP_CipherUpdate(pointer, buffer.baseAddress, &written, input.baseAddress, Int32(input.count))
            }
            precondition(result == 1 && Int(written) == bytes.count, "a cipher refused bytes")
            initialized = bytes.count
        }
    }

    func expect(tag: [UInt8]) {
        var tag = tag
        let result = EVP_CIPHER_CTX_ctrl(pointer, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count), &tag)
        precondition(result == 1, "a cipher refused a tag")
    }

    /// - Returns: When decrypting, whether the tag is right.
    func finish() -> Bool {
        var rest = [UInt8](repeating: 0, count: 16)
        var written: Int32 = 0
        return EVP_CipherFinal_ex(pointer, &rest, &written) == 1
    }

    func tag() -> [UInt8] {
        var tag = [UInt8](repeating: 0, count: AuthenticatedEncryption.tagByteCount)
        let result = EVP_CIPHER_CTX_ctrl(pointer, EVP_CTRL_AEAD_GET_TAG, Int32(tag.count), &tag)
        precondition(result == 1, "a cipher gave no tag")
        return tag
    }
}

/// An `EVP_CIPHER` of OpenSSL, fetched by name once.
///
/// Unchecked because a fetched `EVP_CIPHER` is immutable and this one is never freed.
private struct CipherMethod: @unchecked Sendable {
    let pointer: OpaquePointer

    static let aes256GCM = CipherMethod("AES-256-GCM")

    private init(_ name: String) {
        guard let pointer = EVP_CIPHER_fetch(nil, name, nil) else {
            preconditionFailure("this OpenSSL does not offer \(name)")
        }
        self.pointer = pointer
    }
}
