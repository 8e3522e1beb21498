import Bytes
import Testing

@testable import Signing

@Suite("Identity tokens", .timeLimit(.minutes(10)))
struct IdentityTokenTests {
    private static let now: Int64 = 1_800_000_000
    private let rules = IdentityTokenRules(issuer: "https://login.example", audiences: ["app", "web"])
    private let issuer: TestIssuer

    init() throws { issuer = try TestIssuer() }

    private static func claims(_ changes: [String: String?] = [:]) -> String {
        var members = [
            "iss": #""https://login.example""#, "aud": #""app""#, "sub": #""anna""#, "exp": "\(now + 60)",
            "iat": "\(now)", "nbf": "\(now)",
        ]
        for (name, value) in changes { members[name] = value }
        return "{" + members.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
    }

    private func identity(
        _ changes: [String: String?] = [:],
        by signer: TestIssuer? = nil,
        at now: Int64 = now
    ) throws -> Result<IdentityTokenRules.Identity, IdentityTokenRules.Failure> {
        let token = try JSONWebToken((signer ?? issuer).token(Self.claims(changes)))
        let keys = try #require(try issuer.keys).keys(for: token)
        return Result { () throws(IdentityTokenRules.Failure) in
            try rules.identity(in: token, keys: keys, at: now)
        }
    }

    @Test("a valid token yields subject, audience and claims")
    func right() throws {
        let identity = try identity(["tenant": "7"]).get()
        #expect(identity.subject == "anna" && identity.audience == "app")
        #expect(identity.claims["tenant"] == .integer(7))
        #expect(try self.identity(["aud": #"["other","web"]"#]).get().audience == "web")
        // Both are optional.
        #expect(throws: Never.self) { try self.identity(["nbf": nil, "iat": nil]).get() }
        #expect(throws: Never.self) { try self.identity(["exp": "\(Self.now + 60).5"]).get() }
    }

    @Test("issuers, audiences, key ids and names of claims are compared by their bytes")
    func bytes() throws {
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        let rules = IdentityTokenRules(issuer: "https://\(composed).example", audiences: [composed])
        for (issuerName, audience, isRight) in [
            (composed, composed, true), (decomposed, composed, false), (composed, decomposed, false),
        ] {
            let changes = ["iss": "\"https://\(issuerName).example\"", "aud": "[\"\(audience)\"]"]
            let token = try JSONWebToken(issuer.token(Self.claims(changes)))
            let keys = try #require(try issuer.keys).keys(for: token)
            let identity = try? rules.identity(in: token, keys: keys, at: Self.now)
            #expect((identity != nil) == isRight)
            #expect(rules.areMeant(by: token) == (issuerName.unicodeScalars.count == composed.unicodeScalars.count))
        }
        let token = try JSONWebToken(issuer.token(#"{"\#(composed)":1,"\#(decomposed)":2}"#))
        #expect(token.claims[composed] == .integer(1) && token.claims[decomposed] == .integer(2))
    }

    @Test("times have a leeway of exactly one minute")
    func times() throws {
        let leeway = IdentityTokenRules.leeway
        #expect(throws: Never.self) { try identity(at: Self.now + 60 + leeway - 1).get() }
        #expect(throws: IdentityTokenRules.Failure.expired(Self.now + 60)) {
            try identity(at: Self.now + 60 + leeway).get()
        }
        for name in ["nbf", "iat"] {
            #expect(throws: Never.self) { try identity([name: "\(Self.now + leeway)"]).get() }
            #expect(throws: IdentityTokenRules.Failure.self) { try identity([name: "\(Self.now + leeway + 1)"]).get() }
        }
    }

    @Test(
        "an invalid token is refused",
        arguments: [
            ["iss": #""https://login.example/""#], ["iss": #""https://evil.example""#], ["iss": nil], ["iss": "1"],
            ["aud": #""other""#], ["aud": #""app\u0301""#], ["aud": "[]"], ["aud": nil], ["aud": #""App""#],
            ["aud": "{}"],
            ["sub": nil], ["sub": #""""#], ["sub": "1"], ["sub": "\"" + String(repeating: "a", count: 256) + "\""],
            ["exp": nil], ["exp": #""\#(now + 60)""#], ["exp": "true"], ["exp": "1e400"], ["nbf": #""soon""#],
            ["iat": "[]"],
        ] as [[String: String?]]
    )
    func wrong(changes: [String: String?]) throws {
        // A number that cannot be represented is not valid JSON here.
        guard let result = try? identity(changes) else { return }
        guard case .failure(.invalid(let reason)) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(!reason.contains("anna"))
    }

    @Test("an algorithm that the rules leave out is refused, with a right signature too")
    func algorithms() throws {
        let token = try JSONWebToken(issuer.token(Self.claims()))
        let keys = try #require(try issuer.keys).keys(for: token)
        let others = IdentityTokenRules(issuer: rules.issuer, audiences: rules.audiences, algorithms: [.rs256, .edDSA])
        #expect(throws: IdentityTokenRules.Failure.invalid("is not signed with a key of its issuer")) {
            try others.validity(of: token, keys: keys, at: Self.now)
        }
    }

    @Test("a maximum lifetime is from iat to exp, and needs both")
    func lifetime() throws {
        let rules = IdentityTokenRules(
            issuer: rules.issuer,
            audiences: rules.audiences,
            leeway: 0,
            maximumLifetime: 100
        )
        func validity(_ changes: [String: String?]) throws -> IdentityTokenRules.Validity {
            let token = try JSONWebToken(issuer.token(Self.claims(changes)))
            return try rules.validity(
                of: token,
                keys: try #require(try issuer.keys).keys(for: token),
                at: Self.now
            )
        }
        let found = try validity(["iat": "\(Self.now - 40)", "sub": nil])
        #expect(found.issuedAt == Double(Self.now - 40) && found.expiresAt == Double(Self.now + 60))
        #expect(found.audience == "app")
        for changes in [["iat": "\(Self.now - 41)"], ["iat": nil], ["exp": "\(Self.now)"], ["nbf": "\(Self.now + 1)"]] {
            #expect(throws: IdentityTokenRules.Failure.self, "\(changes)") { try validity(changes) }
        }
    }

    @Test("the signature is checked first, so that nothing about a foreign token is revealed")
    func foreign() throws {
        let other = try TestIssuer()
        let foreign = IdentityTokenRules.Failure.invalid("is not signed with a key of its issuer")
        #expect(throws: foreign) { try identity(by: other).get() }
        #expect(throws: foreign) { try identity(["exp": "1"], by: other).get() }
        // Names a key that does not exist.
        #expect(throws: foreign) { try identity(by: try TestIssuer(id: "two")).get() }
    }
}
