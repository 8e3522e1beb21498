internal import COpenSSL

/// An `EVP_MD` of OpenSSL, fetched by name once per process.
///
/// Unchecked because a fetched `EVP_MD` is immutable and these are never freed.
struct DigestMethod: @unchecked Sendable {
    let pointer: OpaquePointer

    static let md5 = DigestMethod("MD5")
    static let sha1 = DigestMethod("SHA1")
    static let sha256 = DigestMethod("SHA256")
    static let sha512 = DigestMethod("SHA512")

    private init(_ name: String) {
        guard let pointer = EVP_MD_fetch(nil, name, nil) else {
            preconditionFailure("this OpenSSL does not offer \(name)")
        }
        self.pointer = pointer
    }
}

extension DigestAlgorithm {
    /// `nil` for the algorithm that OpenSSL does not have.
    var method: DigestMethod? {
        switch self {
        case .md5: .md5
        case .sha1: .sha1
        case .sha256: .sha256
        case .sha512: .sha512
        case .crc32c: nil
        }
    }
}

/// Owns an `EVP_MD_CTX`.
///
/// Its calls fail only if memory is short or OpenSSL is broken, never because of the input; these failures trap.
struct DigestContext: ~Copyable {
    private let pointer: OpaquePointer

    init(_ method: DigestMethod) {
        guard let pointer = EVP_MD_CTX_new() else { preconditionFailure("no memory for a digest") }
        self.pointer = pointer
        precondition(EVP_DigestInit_ex2(pointer, method.pointer, nil) == 1, "a digest could not be started")
    }

    deinit { EVP_MD_CTX_free(pointer) }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        precondition(EVP_DigestUpdate(pointer, bytes.baseAddress, bytes.count) == 1, "a digest could not be updated")
    }

    /// The digest; `count` is the size of the algorithm's result in bytes.
    mutating func finish(count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            var written: UInt32 = 0
            let result = EVP_DigestFinal_ex(pointer, buffer.baseAddress, &written)
            precondition(result == 1 && Int(written) == count, "a digest could not be finished")
            initialized = count
        }
    }
}
