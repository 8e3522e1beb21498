import Bytes
import COpenSSL
import Foundation

@testable import Signing

/// An issuer with a P-256 key that signs anything for a test.
///
/// OpenSSL's own names; the pointers live as long as the issuer.
final class TestIssuer {
    struct NoKey: Error {}

    private let key: OpaquePointer
    private let id: String

    init(id: String = "one") throws {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { throw NoKey() }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw NoKey() }
        self.key = key
        self.id = id
    }

    deinit { EVP_PKEY_free(key) }

    /// As an entry of a key set.
    var json: String {
        get throws {
            var bytes = [UInt8](repeating: 0, count: 65)
            var count = 0
            guard EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, &bytes, bytes.count, &count) == 1,
                count == 65
            else { throw NoKey() }
            let (x, y) = (Base64.encodeURLSafe(bytes[1...32]), Base64.encodeURLSafe(bytes[33...64]))
            return #"{"kty":"EC","crv":"P-256","use":"sig","kid":"\#(id)","x":"\#(x)","y":"\#(y)"}"#
        }
    }

    var keys: JSONWebKeySet? { get throws { JSONWebKeySet(json: Array(#"{"keys":[\#(try json)]}"#.utf8)) } }

    func token(_ claims: String, header: String? = nil) throws -> String {
        let parts = [header ?? #"{"alg":"ES256","typ":"JWT","kid":"\#(id)"}"#, claims]
        let message = parts.map { Base64.encodeURLSafe(Array($0.utf8)) }.joined(separator: ".")
        return message + "." + Base64.encodeURLSafe(try signature(of: Array(message.utf8)))
    }

    private func signature(of message: [UInt8]) throws -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw NoKey() }
        defer { EVP_MD_CTX_free(context) }
        var der = [UInt8](repeating: 0, count: 128)
        var count = der.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &der, &count, message, message.count) == 1
        else { throw NoKey() }
        // 30 length, and two numbers: 02 length bytes. RFC 7518 §3.4 wants 32 bytes of each.
        let first = der[4..<(4 + Int(der[3]))]
        let second = der[(first.endIndex + 2)..<(first.endIndex + 2 + Int(der[first.endIndex + 1]))]
        return [first, second].flatMap { number in
            [UInt8](repeating: 0, count: 32 - number.suffix(32).count) + number.suffix(32)
        }
    }
}
