import Foundation
import Signing
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Limits of API keys", .timeLimit(.minutes(10)))
struct KeyLimitsTests {
    @Test("empty limits limit nothing")
    func none() {
        let limits = KeyLimits()
        #expect(limits.covers(subject: nil, bucket: nil, key: nil))
        #expect(limits.covers(subject: "u", bucket: "b", key: "k"))
        #expect(limits.problem(with: [.admin]) == nil)
    }

    @Test("a key for some users is valid for them only, and not without a user")
    func subjects() {
        let limits = KeyLimits(subjects: ["anna", "tenant-1:*"])
        for subject in ["anna", "tenant-1:", "tenant-1:x"] {
            #expect(limits.covers(subject: subject, bucket: nil, key: nil))
        }
        for subject in [nil, "", "annab", "ann", "tenant-1", "tenant-11:x", "*"] {
            #expect(!limits.covers(subject: subject, bucket: nil, key: nil))
        }
        #expect(limits.onlySubject == nil)
        #expect(KeyLimits(subjects: ["anna"]).onlySubject == "anna")
        #expect(KeyLimits(subjects: ["anna*"]).onlySubject == nil)
    }

    @Test("a key for buckets and prefixes is valid for their objects only")
    func objects() {
        let limits = KeyLimits(buckets: ["b1", "b2"], prefixes: ["in/", "out/"])
        for key in ["in/", "in/a", "out/a/b"] { #expect(limits.allows(bucket: "b2", key: key)) }
        for key in ["", "in", "i", "/in/a", "inx/"] { #expect(!limits.allows(bucket: "b1", key: key)) }
        #expect(!limits.allows(bucket: "b3", key: "in/a"))
        #expect(!limits.covers(subject: "u", bucket: nil, key: nil))
        #expect(KeyLimits(buckets: ["b1"]).allows(bucket: "b1", key: ""))
    }

    @Test("limits that are empty or cannot be enforced are refused")
    func problems() {
        let refused: [(KeyLimits, Set<Scope>)] = [
            (KeyLimits(subjects: ["a"]), [.admin]), (KeyLimits(subjects: [""]), [.mint]),
            (KeyLimits(subjects: ["a\nb"]), [.mint]), (KeyLimits(subjects: ["*"]), [.mint]),
            (KeyLimits(prefixes: ["a/"]), [.mint]), (KeyLimits(buckets: ["b"], prefixes: [""]), [.mint]),
            (KeyLimits(buckets: ["b"], prefixes: ["a*"]), [.mint]), (KeyLimits(buckets: ["?"]), [.mint]),
        ]
        for (limits, scopes) in refused { #expect(limits.problem(with: scopes) != nil, "\(limits)") }
        let limits = KeyLimits(subjects: ["a*"], buckets: ["b"], prefixes: ["a/"])
        #expect(limits.problem(with: [.mint, .upload, .read, .delete]) == nil)
    }

    @Test("a key for one user uploads for that user; other limited keys cannot upload themselves")
    func grants() async throws {
        let state = InMemoryState()
        let clock = AccessClock()
        let authenticator = Authenticator(
            state: state,
            sealer: GrantSealer(master: try #require(.init(bytes: [UInt8](0..<32)))),
            revoked: RevocationList(state: state, clock: clock),
            clock: clock
        )
        func subject(_ limits: KeyLimits) async throws -> String? {
            var made = APIKeySecret.generate(name: "n", scopes: [.upload], expiresAt: nil, at: clock.now)
            made.key.limits = limits
            try await state.insert(made.key)
            return try await authenticator.grantToUpload(dialect: "tus", authorization: "Bearer \(made.secret)").subject
        }
        #expect(try await subject(KeyLimits()) == nil)
        #expect(try await subject(KeyLimits(subjects: ["anna"])) == "anna")
        for limits in [KeyLimits(subjects: ["a", "b"]), KeyLimits(subjects: ["a*"]), KeyLimits(buckets: ["b"])] {
            let error = await #expect(throws: UploadError.self) { try await subject(limits) }
            #expect(error?.code == .forbidden(scope: nil))
        }
    }

    @Test("a prefix is never empty, and the prefix of a user ends with a slash and contains no other")
    func prefixes() {
        #expect(KeyPrefix("") == nil)
        #expect(KeyPrefix(String(repeating: "x", count: 1025)) == nil)
        for subject in ["", "a\u{0}", String(repeating: "x", count: 257)] {
            #expect(KeyPrefix(subject: subject) == nil)
        }
        for (subject, prefix) in [
            ("anna", "anna/"), ("a/b", "a%2Fb/"), (".", "%2E/"), ("..", "%2E%2E/"), ("...", ".../"), ("ü", "%C3%BC/"),
            ("/", "%2F/"), ("%2F", "%252F/"),
        ] {
            #expect(KeyPrefix(subject: subject)?.text == prefix)
        }
    }
}
