internal import COpenSSL
internal import Foundation

/// Keys of session tickets (RFC 5077 §4), which all nodes derive from the same secret, anew in each period.
///
/// Thus a client can resume its session at any node and after a restart, and a key that leaks opens the tickets of two days
/// at most.
package struct TLSTicketKeys: Sendable {
    /// Seconds in which one key makes new tickets.
    ///
    /// OpenSSL accepts a ticket for two hours.
    package static let period: Int64 = 12 * 3600
    /// Bytes that a key is derived from: its name, a key for HMAC-SHA256 and one for AES-256.
    package static let size = 80

    private let derive: @Sendable (_ period: Int64) -> [[UInt8]]

    /// - Parameter derive: Gives `size` bytes for each secret in a period, the secret for new tickets first; not empty.
    package init(_ derive: @escaping @Sendable (_ period: Int64) -> [[UInt8]]) {
        self.derive = derive
    }

    fileprivate struct Key {
        let name, forMAC, forCipher: ArraySlice<UInt8>

        init?(_ bytes: [UInt8]) {
            guard bytes.count == TLSTicketKeys.size else { return nil }
            (name, forMAC, forCipher) = (bytes[..<16], bytes[16..<48], bytes[48...])
        }
    }

    /// The key for new tickets.
    fileprivate func current(at time: Int64) -> Key? { derive(time / Self.period).first.flatMap(Key.init) }

    /// The key with this name; also one of the period before, or of the next if the clock of another node is ahead.
    fileprivate func find(_ name: [UInt8], at time: Int64) -> Key? {
        let now = time / Self.period
        for period in [now, now - 1, now + 1] {
            for key in derive(period).compactMap(Key.init) where key.name.elementsEqual(name) { return key }
        }
        return nil
    }
}

/// SSL_CTX_set_tlsext_ticket_key_evp_cb(3): makes a ticket, or opens one.
///
/// - Returns: 1 for success, 2 if the client should get a new ticket, 0 for a ticket with an unknown key, -1 for a failure.
func useTicketKey(
    _ session: OpaquePointer?,
    _ name: UnsafeMutablePointer<UInt8>?,
    _ vector: UnsafeMutablePointer<UInt8>?,
    _ cipher: OpaquePointer?,
    _ mac: OpaquePointer?,
    _ isNew: Int32
) -> Int32 {
    guard let name, let vector, let cipher, let mac, let tickets = TLSContext.Configuration.of(session)?.tickets else {
        return -1
    }
    let time = Int64(Date().timeIntervalSince1970)
    let current = tickets.current(at: time)
    let known = isNew == 1 ? current : tickets.find(Array(UnsafeBufferPointer(start: name, count: 16)), at: time)
    guard let key = known else { return isNew == 1 ? -1 : 0 }
    guard cossl_set_mac_key(mac, Array(key.forMAC), key.forMAC.count) == 1 else { return -1 }
    let secret = Array(key.forCipher)
    if isNew == 1 {
        // The pointers have room for 16 bytes each: the size of a name, and of a block of AES.
        guard RAND_bytes(vector, 16) == 1, EVP_EncryptInit_ex2(cipher, EVP_aes_256_cbc(), secret, vector, nil) == 1
        else { return -1 }
        for (index, byte) in key.name.enumerated() { name[index] = byte }
        return 1
    }
    guard EVP_DecryptInit_ex2(cipher, EVP_aes_256_cbc(), secret, vector, nil) == 1 else { return -1 }
    return current.map { $0.name.elementsEqual(key.name) } == true ? 1 : 2
}
