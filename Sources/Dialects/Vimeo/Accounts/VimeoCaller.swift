internal import Digests
internal import Foundation
internal import UploadModel

/// Whoever sent a call: the holder of a token.
struct VimeoCaller: Sendable {
    /// The sealed grant.
    let grant: Grant
    let scopes: Set<VimeoScope>
    /// Whether the API key that minted the token may upload itself.
    var keyUploads = false

    /// - Throws: `VimeoFailure` 401 if the token has no user.
    func user() throws(VimeoFailure) -> VimeoUser {
        guard let subject = grant.subject else { throw .noUser }
        return VimeoUser(subject)
    }

    func require(_ scope: VimeoScope) throws(VimeoFailure) {
        guard scopes.contains(scope) else { throw .missingScope(scope) }
    }

    /// Whether it may read the videos of its user; without this scope, it sees those that it has begun, but not their
    /// content.
    var mayRead: Bool { scopes.contains(.private) }

    /// In whose name links to content are made for it; `nil` if it may not read.
    var reader: VimeoDocuments.Reader? {
        guard mayRead, let issuer = grant.issuer else { return nil }
        return VimeoDocuments.Reader(issuer: issuer, expiresAt: grant.expiresAt)
    }

    /// Whether it may see a video that a token has begun.
    func maySee(begunBy principal: String?) -> Bool { mayRead || principal == grant.id }

    /// Checks that it may remove a picture or a text track of a video.
    ///
    /// Complete ones are media, which no API key without the scope `delete` removes.
    ///
    /// - Throws: `VimeoFailure` 403.
    func requireRemoving(isComplete: Bool) throws(VimeoFailure) {
        try require(.edit)
        if isComplete { try require(.delete) }
    }

    /// Checks that it may add to a video that a token has begun: another file, a picture, a text track.
    ///
    /// - Throws: `VimeoFailure` 403.
    func requireAdding(toVideoBegunBy principal: String?) throws(VimeoFailure) {
        try require(.upload)
        if principal != grant.id { try require(.edit) }
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
