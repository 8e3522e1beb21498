internal import Digests
internal import Foundation
internal import UploadCore

/// Whoever sent a call: the holder of a token.
struct VimeoCaller: Sendable {
    /// The sealed grant.
    let grant: Grant
    let scopes: Set<VimeoScope>

    /// - Throws: `VimeoFailure` 401 if the token has no user.
    func user() throws(VimeoFailure) -> VimeoUser {
        guard let subject = grant.subject else { throw .noUser }
        return VimeoUser(subject)
    }

    func require(_ scope: VimeoScope) throws(VimeoFailure) {
        guard scopes.contains(scope) else { throw .missingScope(scope) }
    }
}

/// An app user; Vimeo's API identifies users by a number.
struct VimeoUser: Sendable, Equatable {
    let subject: String
    /// Made from the subject, so that no record is needed; below 2^53, which JavaScript can represent.
    ///
    /// Two users could have the same number. So whatever belongs to a user also names the subject.
    let number: Int64

    init(_ subject: String) {
        self.subject = subject
        let digest = Digest.hash(Array("vimeo user \(subject)".utf8), .sha256)
        number = digest.prefix(8).reduce(0) { $0 << 8 | Int64($1) } & (1 << 53 - 1) | 1
    }

    /// Fixed width, so that records of a user have one prefix.
    var prefix: String {
        let digits = String(number)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    var uri: String { "/users/\(number)" }
}
