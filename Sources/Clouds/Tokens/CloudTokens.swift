package import CloudCredentials
internal import Bytes
internal import Digests

/// A real token service, which issues temporary credentials.
package protocol CloudTokens: Sendable {
    /// Allowed lifetimes in seconds.
    var lifetimes: ClosedRange<Int64> { get }

    /// Requests credentials.
    ///
    /// - Parameter request: The session and what it may do.
    /// - Returns: The issued credentials.
    /// - Throws: The service's error, or why there was no response.
    func mint(_ request: CloudTokenRequest) async throws(CloudFailure) -> TemporaryCredentials
}

/// A request to a token service.
package struct CloudTokenRequest: Sendable, Equatable {
    /// The app user; any string.
    package var subject: String
    /// JSON in the vendor's policy syntax; see `ObjectGrant.sessionPolicy`.
    package var policy: String
    /// Seconds.
    package var lifetime: Int64

    package init(subject: String, policy: String, lifetime: Int64) {
        self.subject = subject
        self.policy = policy
        self.lifetime = lifetime
    }

    /// The subject as a session name, which identifies it in the vendor's own log.
    ///
    /// - Parameters:
    ///   - maximum: Maximum number of characters, at least 18.
    ///   - isAllowed: Which ASCII characters are allowed; at least letters.
    /// - Returns: The subject itself if it is a valid name of at least two characters. Otherwise its allowed characters
    ///   and 16 letters of its SHA-256, so that two users never share a name.
    func sessionName(maximum: Int, _ isAllowed: (UInt8) -> Bool) -> String {
        let kept = subject.utf8.filter { $0 < 0x80 && isAllowed($0) }
        let isWhole = kept.count == subject.utf8.count && (2...maximum).contains(kept.count)
        if isWhole { return subject }
        let letters = Digest.hash(subject.utf8, .sha256).prefix(8)
            .flatMap { [$0 >> 4, $0 & 15] }.map { UInt8(ascii: "a") + $0 }
        return String(decoding: kept.prefix(maximum - letters.count) + letters, as: UTF8.self)
    }

    static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) }

    static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        isLetter(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
