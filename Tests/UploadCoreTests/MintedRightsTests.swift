import Foundation
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("What keys may mint", .timeLimit(.minutes(10)))
struct MintedRightsTests {
    private static func key(
        _ scopes: Set<Scope>,
        _ limits: KeyLimits = KeyLimits(),
        until end: Date? = nil
    ) -> APIKey {
        APIKey(
            id: "key_a",
            name: "a",
            scopes: scopes,
            createdAt: .distantPast,
            expiresAt: end,
            digest: [],
            limits: limits
        )
    }

    private static let places: [MintedRights.Reach] = [
        .uploads, .objects(bucket: "b", prefix: ""), .objects(bucket: "b", prefix: "anna/x"), .limitsOfKey,
    ]

    @Test("a key mints rights of its own scopes only; admin has all of them")
    func scopes() {
        for scope in Scope.allCases {
            for wanted in Scope.allCases where wanted != .admin {
                for reach in Self.places {
                    let rights = MintedRights([wanted], subject: "anna", reach: reach)
                    let may = scope == wanted || scope == .admin
                    #expect(Self.key([scope]).refusal(minting: rights) == (may ? nil : .scopes([wanted])))
                }
            }
            #expect(Self.key([scope]).refusal(minting: MintedRights(subject: "anna", reach: .uploads)) == nil)
        }
        let rights = MintedRights([.read, .delete, .upload], subject: nil, reach: .uploads)
        #expect(Self.key([.mint, .upload]).refusal(minting: rights) == .scopes([.read, .delete]))
    }

    @Test(
        "subjects, buckets and prefixes of a key bind what it mints",
        arguments: [
            (KeyLimits(subjects: ["anna"]), "anna", [true, true, true, true]),
            (KeyLimits(subjects: ["a*"]), "anna", [true, true, true, true]),
            (KeyLimits(subjects: ["bert"]), "anna", [false, false, false, false]),
            (KeyLimits(subjects: ["anna"]), nil, [false, false, false, false]),
            (KeyLimits(buckets: ["b"]), "anna", [false, true, true, true]),
            (KeyLimits(buckets: ["c"]), "anna", [false, false, false, true]),
            (KeyLimits(buckets: ["b"], prefixes: ["anna/"]), nil, [false, false, true, true]),
        ] as [(KeyLimits, String?, [Bool])]
    )
    func limits(_ limits: KeyLimits, _ subject: String?, _ allowed: [Bool]) {
        for (reach, isAllowed) in zip(Self.places, allowed) {
            let rights = MintedRights(subject: subject, reach: reach)
            #expect(Self.key([.mint], limits).refusal(minting: rights) == (isAllowed ? nil : .limits), "\(reach)")
        }
    }

    @Test("a key that only its subjects limit gives access to objects below the name of the subject only")
    func subjectsOnly() {
        let key = Self.key([.mint, .read], KeyLimits(subjects: ["an na", "bert"]))
        for (prefix, isAllowed) in [("an%20na/", true), ("an%20na/x", true), ("", false), ("bert/", false)] {
            let rights = MintedRights([.read], subject: "an na", reach: .objects(bucket: "b", prefix: prefix))
            #expect(key.refusal(minting: rights) == (isAllowed ? nil : .limits), "\(prefix)")
            // To begin uploads, any key will do.
            #expect(key.refusal(minting: MintedRights(subject: "an na", reach: rights.reach)) == nil)
        }
        // A prefix of its own says what is whose.
        let limited = Self.key([.mint, .read], KeyLimits(subjects: ["bert"], buckets: ["b"], prefixes: ["in/"]))
        let rights = MintedRights([.read], subject: "bert", reach: .objects(bucket: "b", prefix: "in/"))
        #expect(limited.refusal(minting: rights) == nil)
    }

    @Test("what concerns all needs a key without limits")
    func all() {
        let rights = MintedRights([.upload], subject: "anna", reach: .limitsOfKey, concernsAll: true)
        #expect(Self.key([.upload]).refusal(minting: rights) == nil)
        for limits in [KeyLimits(subjects: ["anna"]), KeyLimits(buckets: ["b"])] {
            #expect(Self.key([.upload], limits).refusal(minting: rights) == .limits)
        }
    }

    @Test("what is minted ends with the key, in whole seconds")
    func expiry() throws {
        let now = Date(timeIntervalSince1970: 1000)
        let key = Self.key([.mint], until: Date(timeIntervalSince1970: 1060.7))
        for (wanted, end) in [(1030.0, 1030.0), (1060.9, 1060), (9999, 1060)] {
            var grant = Grant(id: "g", subject: nil, expiresAt: Date(timeIntervalSince1970: wanted))
            try key.limit(minted: &grant, at: now)
            #expect(grant.expiresAt == Date(timeIntervalSince1970: end))
        }
        #expect(Self.key([.mint]).lastExpiry(.distantFuture, at: now) == .distantFuture)
        #expect(Self.key([.mint]).end(ofMintedAt: now) == nil)
        #expect(key.end(ofMintedAt: now) == Date(timeIntervalSince1970: 1060))
    }
}
