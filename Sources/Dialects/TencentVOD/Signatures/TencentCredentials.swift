package import Signing

/// A secret id with its secret key: of a cloud account, or Sluice's own.
package struct TencentCredentials: Sendable, Equatable {
    package let secretID: String
    package let secretKey: String

    package init(secretID: String, secretKey: String) {
        self.secretID = secretID
        self.secretKey = secretKey
    }

    /// Sluice's own pair, in the form of a cloud account's: `AKID` and 32 letters and digits, and a key of 32.
    ///
    /// The same master always gives the same pair.
    package static func relay(from master: MasterSecret) -> TencentCredentials {
        TencentCredentials(
            secretID: "AKID" + characters(32, of: master, for: "tencent relay secret id v1"),
            secretKey: characters(32, of: master, for: "tencent relay secret key v1")
        )
    }

    /// Letters and digits from 64 derived bits each, so that their distribution is practically uniform.
    private static func characters(_ count: Int, of master: MasterSecret, for purpose: String) -> String {
        let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        let bytes = master.key(for: purpose, count: count * 8)
        let characters = (0..<count).map { index in
            let number = bytes[(index * 8)..<(index * 8 + 8)].reduce(into: UInt64(0)) { $0 = $0 << 8 | UInt64($1) }
            return alphabet[Int(number % UInt64(alphabet.count))]
        }
        return String(decoding: characters, as: UTF8.self)
    }
}

extension TencentCredentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "\(secretID) <redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["secretID": secretID]) }
}
