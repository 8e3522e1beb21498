internal import HTTPWire
internal import SystemIO
internal import Synchronization
internal import UploadCore

/// Audit lines for users of identity providers and callers of token services, and for refused credentials.
///
/// A client can cause any number of these, so each is a line only once until it has not happened for an hour or two, and both
/// kinds are at most `mostPerSecond` each: a flood of refusals hides no sign-in.
package final class SignInLog: Sendable {
    private struct State {
        private var recent = RecentNames()
        /// Since the start, in seconds.
        private var second: UInt64 = 0
        private var lines = 0
        private var withheld: UInt64 = 0

        /// - Parameters:
        ///   - name: What the line is about.
        ///   - now: Monotonic nanoseconds.
        /// - Returns: Number of lines that were left out before this one; `nil` if this one is left out, too.
        mutating func pass(_ name: Int, at now: Nanoseconds) -> UInt64? {
            if recent.renew(name, at: now) { return nil }
            let second = now / 1_000_000_000
            if second != self.second { (self.second, lines) = (second, 0) }
            guard lines < SignInLog.mostPerSecond else {
                // It is told when it comes again.
                withheld += 1
                return nil
            }
            lines += 1
            recent.insert(name)
            defer { withheld = 0 }
            return withheld
        }
    }

    /// What a line says.
    struct Line: Sendable {
        let action: AuditLog.Action
        /// The id of an API key, or the name that issuer and audience have in its place.
        var issuer: String?
        let client: String
        var fields: [String: String?]
        /// Lines that were left out before.
        var withheld: UInt64 = 0
    }

    /// Lines in a second.
    static let mostPerSecond = 10

    private let hasIssuers: Bool
    private let write: @Sendable (Line) -> Void
    private let signIns = Mutex(State())
    private let refusals = Mutex(State())

    /// - Parameters:
    ///   - audit: Gets the lines.
    ///   - hasIssuers: Whether tokens of identity providers admit users.
    package convenience init(_ audit: AuditLog, hasIssuers: Bool) {
        self.init(hasIssuers: hasIssuers) { line in
            audit.record(
                line.action,
                by: line.issuer,
                client: line.client,
                line.fields,
                withheld: line.withheld
            )
        }
    }

    init(hasIssuers: Bool, write: @escaping @Sendable (Line) -> Void) {
        self.hasIssuers = hasIssuers
        self.write = write
    }

    /// Whether a request can sign somebody in: it brings a JSON Web Token, or is for a token service.
    func concerns(_ head: RequestHead) -> Bool {
        if head.target.rawPath == "/", head.method == .post || head.target.rawQuery != nil { return true }
        guard hasIssuers, let authorization = head.fields["Authorization"] else { return false }
        return Authenticator.isForUser(authorization: authorization)
    }

    /// Writes what is new about a request that has been answered.
    func ended(_ request: Request, _ response: Response, _ note: SignInNote?) {
        ended(request.head, response.trace, note?.signIn, client: request.clientAddress, requestID: request.id)
    }

    /// - Parameters:
    ///   - head: The head of the request.
    ///   - trace: That of its response.
    ///   - signIn: What it signed in with; `nil` if it did not.
    ///   - client: Address of the client.
    ///   - requestID: Its id in logs.
    ///   - now: Monotonic nanoseconds.
    func ended(
        _ head: RequestHead,
        _ trace: Response.Trace,
        _ signIn: SignInNote.SignIn?,
        client: String,
        requestID: String,
        at now: Nanoseconds = MonotonicClock.now
    ) {
        let fields: [String: String?] = ["request": requestID, "dialect": trace.dialect?.name]
        if let signIn {
            let isUser = signIn.kind == .user
            var line = Line(
                action: isUser ? .admitUser : .mintSession,
                issuer: signIn.issuer,
                client: client,
                fields: fields
            )
            // Those of a key are not counted by user: an app asks for credentials for each of them.
            if isUser { line.fields["subject"] = signIn.subject }
            tell(line, isUser ? signIn.subject : nil, at: now)
        }
        guard let code = trace.errorCode, Self.refusesCredential(code, head) else { return }
        var line = Line(action: .refuseCredential, client: client, fields: fields)
        line.fields["reason"] = code
        tell(line, code, at: now)
    }

    /// Writes a line, unless it was written lately, or there are too many.
    private func tell(_ line: Line, _ detail: String?, at now: Nanoseconds) {
        var hasher = Hasher()
        hasher.combine(line.action)
        // By bytes, as names of users are compared.
        for text in [line.issuer, line.client, detail] {
            hasher.combine(text == nil)
            for byte in (text ?? "").utf8 { hasher.combine(byte) }
        }
        let name = hasher.finalize()
        let withheld =
            line.action == .refuseCredential
            ? refusals.withLock { $0.pass(name, at: now) } : signIns.withLock { $0.pass(name, at: now) }
        guard let withheld else { return }
        var line = line
        line.withheld = withheld
        write(line)
    }

    /// Whether an error code of a dialect means that a key, a token or a signature was refused.
    ///
    /// Requests without a credential are not meant: clients send them to ask what is needed.
    static func refusesCredential(_ code: String, _ head: RequestHead) -> Bool {
        switch code.prefix(while: { $0 != "." }) {
        case "unauthenticated", "ERR_UNAUTHENTICATED":
            head.fields.contains("Authorization") || head.target.rawQuery != nil
        case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "SecurityTokenExpired",
            "InvalidSecurityToken", "InvalidClientTokenId", "IncompleteSignature", "InvalidIdentityToken",
            "ExpiredTokenException", "AuthFailure":
            true
        // Of Vimeo; of Tencent's upload SDKs.
        case "8000", "8001", "10004", "10010": true
        default: false
        }
    }
}

/// Names that came within the last hour or two; of many, only the newest are remembered.
struct RecentNames {
    static let most = 8192
    /// Nanoseconds.
    private static let span: Nanoseconds = 3_600_000_000_000

    private var current: Set<Int> = []
    private var former: Set<Int> = []
    private var next: Nanoseconds = 0

    var count: Int { current.count + former.count }

    /// - Returns: Whether the name is among those that are remembered; if so, it came now.
    mutating func renew(_ name: Int, at now: Nanoseconds) -> Bool {
        if now >= next {
            // After a longer pause, nothing is recent.
            former = now >= next + Self.span ? [] : current
            current = []
            next = now + Self.span
        }
        if current.contains(name) { return true }
        guard former.contains(name) else { return false }
        insert(name)
        return true
    }

    /// Remembers a name, which came now.
    mutating func insert(_ name: Int) {
        if current.count >= Self.most { (former, current) = (current, []) }
        current.insert(name)
    }
}
