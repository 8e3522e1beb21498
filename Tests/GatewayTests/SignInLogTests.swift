import HTTPWire
import Synchronization
import Testing

@testable import GatewayKit
@testable import UploadCore

@Suite("Audit lines for sign-ins", .timeLimit(.minutes(10)))
struct SignInLogTests {
    private final class Kept: Sendable {
        let lines = Mutex<[SignInLog.Line]>([])
    }

    private let kept = Kept()
    private let log: SignInLog
    /// Nanoseconds.
    private static let hour: UInt64 = 3_600_000_000_000

    init() {
        let kept = self.kept
        log = SignInLog(hasIssuers: true) { line in kept.lines.withLock { $0.append(line) } }
    }

    private var lines: [SignInLog.Line] { kept.lines.withLock { $0 } }

    private func head(_ path: String = "/files", _ fields: HTTPFields = [:]) throws -> RequestHead {
        RequestHead(method: .post, target: try RequestTarget(parsing: path, method: .post), fields: fields)
    }

    private func signIn(
        _ subject: String,
        from client: String = "192.0.2.1",
        _ kind: SignInNote.Kind = .user,
        at now: UInt64 = 1
    ) throws {
        let signIn = SignInNote.SignIn(kind: kind, issuer: "identity_1", subject: subject)
        log.ended(try head(), Response.Trace(), signIn, client: client, requestID: "r", at: now)
    }

    private func refuse(
        _ code: String,
        _ fields: HTTPFields = ["Authorization": "Bearer x"],
        from client: String = "192.0.2.1",
        at now: UInt64 = 1
    ) throws {
        log.ended(
            try head("/files", fields),
            Response.Trace(errorCode: code),
            nil,
            client: client,
            requestID: "r",
            at: now
        )
    }

    @Test("a user is one line for each address until an hour has passed without it")
    func users() throws {
        for now in 1...5 { try signIn("dora", at: UInt64(now)) }
        try signIn("dora", from: "192.0.2.2")
        try signIn("eve")
        #expect(lines.map(\.action) == [.admitUser, .admitUser, .admitUser])
        #expect(lines.map(\.client) == ["192.0.2.1", "192.0.2.2", "192.0.2.1"])
        #expect(lines.map { $0.fields["subject"] } == ["dora", "dora", "eve"])
        // Seen again within the hour, so it stays known.
        try signIn("dora", at: Self.hour)
        try signIn("dora", at: 2 * Self.hour - 1)
        #expect(lines.count == 3)
        try signIn("dora", at: 4 * Self.hour + 2)
        #expect(lines.count == 4)
    }

    @Test("names are compared by bytes")
    func bytes() throws {
        try signIn("\u{E9}")
        try signIn("e\u{301}")
        #expect(lines.count == 2)
    }

    @Test("a key at a token service is one line, whichever users it asks for")
    func sessions() throws {
        for number in 0..<5 { try signIn("user-\(number)", .session) }
        #expect(lines.map(\.action) == [.mintSession] && lines[0].issuer == "identity_1")
        #expect(lines[0].fields["subject"] == nil)
    }

    @Test(
        "refused credentials are lines with their code",
        arguments: [
            "unauthenticated", "ERR_UNAUTHENTICATED", "8000", "InvalidAccessKeyId", "SignatureDoesNotMatch",
            "AuthFailure.SignatureFailure", "InvalidAccessKeyId.NotFound", "10004", "ExpiredTokenException",
        ]
    )
    func refusals(_ code: String) throws {
        for _ in 0..<3 { try refuse(code) }
        #expect(lines.map(\.action) == [.refuseCredential] && lines[0].fields["reason"] == code)
        try refuse(code, from: "192.0.2.2")
        #expect(lines.count == 2 && lines[1].fields["request"] == "r")
    }

    @Test(
        "other refusals, and requests without a credential, are none",
        arguments: ["forbidden", "AccessDenied", "8003"]
    )
    func others(_ code: String) throws {
        try refuse(code)
        try refuse("unauthenticated", [:])
        #expect(lines.isEmpty)
    }

    @Test("a flood is ten lines a second, and the next line counts the rest")
    func flood() throws {
        for number in 0..<100 { try refuse("unauthenticated", from: "192.0.2.\(number)") }
        #expect(lines.count == SignInLog.mostPerSecond)
        // It hides no sign-in.
        try signIn("dora")
        #expect(lines.last?.action == .admitUser && lines.last?.withheld == 0)
        try refuse("unauthenticated", from: "192.0.2.200", at: 1_000_000_001)
        #expect(lines.last?.withheld == UInt64(100 - SignInLog.mostPerSecond))
        try refuse("unauthenticated", from: "192.0.2.201", at: 1_000_000_002)
        #expect(lines.last?.withheld == 0)
        // What was left out is told when it comes again.
        try refuse("unauthenticated", from: "192.0.2.99", at: 1_000_000_003)
        #expect(lines.last?.client == "192.0.2.99")
        let count = lines.count
        try refuse("unauthenticated", from: "192.0.2.99", at: 1_000_000_004)
        #expect(lines.count == count)
    }

    @Test(
        "every form of a user's token in which it signs in",
        arguments: [
            ("Bearer eyJh.eyJi.c", true), ("bearer  eyJh.eyJi.c", true), ("BEARER    eyJh.eyJi.c", true),
            ("Bearer slk_1", false), ("Basic eyJh.eyJi.c", false), ("Bearer\teyJh.eyJi.c", false),
            ("Bearer eyJh", false),
        ]
    )
    func tokens(_ authorization: String, _ isOne: Bool) throws {
        #expect(log.concerns(try head("/files", ["Authorization": authorization])) == isOne)
        #expect(log.concerns(try head("/")))
        #expect(!log.concerns(try head()))
    }

    @Test("a bounded number of names is remembered")
    func bounded() {
        var names = RecentNames()
        let isKnown = names.renew(-1, at: 1)
        names.insert(-1)
        let isKnownThen = names.renew(-1, at: 1)
        #expect(!isKnown && isKnownThen)
        for name in 0..<2 * RecentNames.most { names.insert(name) }
        let isKnownAtLast = names.renew(-1, at: 1)
        #expect(names.count <= 2 * RecentNames.most && !isKnownAtLast)
    }

    @Test("only requests with a JSON Web Token, or for a token service, can sign somebody in")
    func concerned() throws {
        let token = "Bearer eyJh.eyJi." + String(repeating: "a", count: 80)
        #expect(log.concerns(try head("/files", ["Authorization": token])))
        for path in ["/?Action=AssumeRole", "/"] { #expect(log.concerns(try head(path))) }
        #expect(!log.concerns(try head("/files", ["Authorization": "Bearer slk_" + String(repeating: "a", count: 80)])))
        #expect(!log.concerns(try head()))
        let without = SignInLog(hasIssuers: false) { _ in }
        #expect(!without.concerns(try head("/files", ["Authorization": token])))
    }

    @Test("the first credential of a request is noted, and only where one can be")
    func notes() async {
        SignInNote.note(.user, issuer: "nobody", subject: nil)
        let note = SignInNote()
        SignInNote.$current.withValue(note) {
            SignInNote.note(.user, issuer: "identity_1", subject: "dora")
            SignInNote.note(.session, issuer: "key_1", subject: "eve")
        }
        #expect(note.signIn == SignInNote.SignIn(kind: .user, issuer: "identity_1", subject: "dora"))
    }
}
