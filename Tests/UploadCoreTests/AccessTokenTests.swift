import Bytes
import Foundation
import Signing
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Upload URLs, upload tokens, API keys and media links", .timeLimit(.minutes(10)))
struct AccessTokenTests {
    let master: MasterSecret
    let other: MasterSecret
    let now = Date(timeIntervalSince1970: 1_700_000_000)

    init() throws {
        master = try #require(MasterSecret(bytes: [UInt8](0..<32)))
        other = try #require(MasterSecret(bytes: [UInt8](1...32)))
    }

    func grant(expiresAt: Date) -> Grant {
        Grant(
            id: "g1",
            subject: "Zoë/1",
            dialect: "tus",
            maximumBytes: .max,
            contentTypes: ["video/mp4", "image/*"],
            expiresAt: expiresAt,
            isOneTime: true,
            metadata: ["name": "\"\\\n中"]
        )
    }

    // MARK: Rotation

    @Test("after a rotation, older URLs, tokens and links work until their secret is removed")
    func rotation() throws {
        let rotated = try #require(MasterSecret(bytes: [UInt8](1...32), accepting: [[UInt8](0..<32)]))
        let id = UploadID.generate(at: now)

        let url = UploadLocator(master: master).token(for: id)
        #expect(UploadLocator(master: rotated).id(in: url) == id)
        #expect(UploadLocator(master: other).id(in: url) == nil)
        #expect(UploadLocator(master: rotated).token(for: id) == UploadLocator(master: other).token(for: id))

        let token = GrantSealer(master: master).seal(grant(expiresAt: now.addingTimeInterval(60)))
        #expect(try GrantSealer(master: rotated).open(token, at: now).id == "g1")
        let ended = #expect(throws: UploadError.self) {
            try GrantSealer(master: rotated).open(token, at: now.addingTimeInterval(60))
        }
        #expect(ended?.message.contains("expired") == true)
        let dropped = #expect(throws: UploadError.self) { try GrantSealer(master: other).open(token, at: now) }
        #expect(dropped?.code == .unauthenticated)
        #expect(throws: Never.self) {
            try GrantSealer(master: other).open(
                GrantSealer(master: rotated).seal(grant(expiresAt: .distantFuture)),
                at: now
            )
        }

        let claim = try claim(MediaLinks(master: master), id, now.addingTimeInterval(60))
        #expect(throws: Never.self) { try MediaLinks(master: rotated).verify(claim, for: id, at: now) }
        let refused = #expect(throws: UploadError.self) {
            try MediaLinks(master: other).verify(claim, for: id, at: now)
        }
        #expect(refused?.code == .unauthenticated)

        let request = PullRequest(url: "https://example.com/a?secret")
        let sealed = PullSealer(master: master).seal(request)
        #expect(PullSealer(master: rotated).open(sealed) == request)
        #expect(PullSealer(master: other).open(sealed) == nil)
        #expect(PullSealer(master: other).open(PullSealer(master: rotated).seal(request)) == request)
    }

    // MARK: Upload URLs

    @Test("an upload token identifies its upload")
    func locator() {
        let id = UploadID.generate(at: now)
        let token = UploadLocator(master: master).token(for: id)
        #expect(token.utf8.count == 49)
        #expect(token.hasPrefix("\(id.text)."))
        #expect(UploadLocator(master: master).id(in: token) == id)
        #expect(UploadLocator(master: master).id(in: "x\(token)".dropFirst()) == id)
    }

    @Test("a token of another server, or a modified one, identifies nothing")
    func forgedLocators() {
        let locator = UploadLocator(master: master)
        let id = UploadID.generate(at: now)
        let token = locator.token(for: id)
        #expect(UploadLocator(master: other).id(in: token) == nil)
        for index in 0..<49 {
            var changed = Array(token.utf8)
            changed[index] = changed[index] == UInt8(ascii: "a") ? UInt8(ascii: "b") : UInt8(ascii: "a")
            #expect(locator.id(in: String(decoding: changed, as: UTF8.self)) == nil)
        }
        for count in 0..<49 { #expect(locator.id(in: token.prefix(count)) == nil) }
        let signature = token.dropFirst(27)
        let next = UploadID.generate(at: now)
        for text in [
            "", ".", "..", id.text, "\(id.text).", "\(token)A", "\(token).", " \(token)", ".\(signature)",
            "\(next.text).\(signature)", "\(id.text)\(signature)", token.uppercased(), "../\(token)",
        ] {
            #expect(locator.id(in: text) == nil, "\(text)")
        }
    }

    // MARK: Upload tokens

    @Test("opening a sealed grant returns the same grant")
    func sealing() throws {
        let sealer = GrantSealer(master: master)
        for expiry in [now.addingTimeInterval(0.001), now.addingTimeInterval(60), .distantFuture] {
            let token = sealer.seal(grant(expiresAt: expiry))
            #expect(token.hasPrefix("slg_"))
            #expect(token.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "=") })
            #expect(try sealer.open(token, at: now) == grant(expiresAt: expiry))
        }
        let forever = Grant(id: "g", subject: nil, expiresAt: Date(timeIntervalSince1970: .infinity))
        #expect(try sealer.open(sealer.seal(forever), at: now) == forever)
    }

    @Test("an expired grant does not open")
    func expiredGrant() {
        let sealer = GrantSealer(master: master)
        let token = sealer.seal(grant(expiresAt: now))
        let error = #expect(throws: UploadError.self) { try sealer.open(token, at: now) }
        #expect(error?.code == .unauthenticated)
        #expect(error?.message.contains("expired") == true)
        #expect(throws: UploadError.self) {
            try sealer.open(sealer.seal(grant(expiresAt: Date(timeIntervalSince1970: .nan))), at: now)
        }
    }

    @Test("a token of another server does not open, and is not repeated")
    func forgedGrants() {
        let sealer = GrantSealer(master: master)
        let token = sealer.seal(grant(expiresAt: .distantFuture))
        let bad = [
            "", "slg_", "slg", String(token.dropFirst(4)), token.replacing("slg_", with: "slk_"), token + "A",
            String(token.dropLast()), "slg_" + token, token.replacing("slg_", with: "SLG_"), "slg_====", "slg_ü",
            GrantSealer(master: other).seal(grant(expiresAt: .distantFuture)),
        ]
        for text in bad {
            let error = #expect(throws: UploadError.self) { try sealer.open(text, at: now) }
            #expect(error?.code == .unauthenticated)
            if text.utf8.count > 4 { #expect(error?.message.contains(text) == false) }
        }
    }

    // MARK: API keys

    @Test("a new key has a long random secret, and only its hash is kept")
    func keys() {
        let made = APIKeySecret.generate(name: "ci", scopes: [.mint, .read], expiresAt: .distantFuture, at: now)
        #expect(made.secret.hasPrefix("slk_"))
        #expect(Base64.decodeURLSafe(made.secret.dropFirst(4))?.count == 32)
        #expect(made.key.id.hasPrefix("key_"))
        #expect(made.key.id.utf8.count == 20)
        #expect(made.key.digest == APIKeySecret.digest(of: made.secret))
        #expect(made.key.digest.count == 32)
        #expect(made.key.name == "ci")
        #expect(made.key.scopes == [.mint, .read])
        #expect(made.key.createdAt == now)
        #expect(made.key.expiresAt == .distantFuture)
        #expect(made.key.revokedAt == nil)
        #expect(!made.key.isPreset)
        var dumped = ""
        dump(made.key, to: &dumped)
        #expect(!dumped.contains(made.secret))
    }

    @Test("no two keys are alike")
    func uniqueKeys() {
        let made = (0..<100).map { _ in APIKeySecret.generate(name: "", scopes: [], expiresAt: nil, at: now) }
        #expect(Set(made.map(\.secret)).count == 100)
        #expect(Set(made.map(\.key.id)).count == 100)
    }

    @Test("the stored hash is the SHA-256 of the secret text")
    func digest() {
        // printf slk_abc | sha256sum
        let expected = "9863a59f7917afe6b46df6003572376cb20440d79cdcb0092662d408d8f4688c"
        #expect(Hexadecimal.encode(APIKeySecret.digest(of: "slk_abc")) == expected)
    }

    // MARK: Media links

    /// The query values of a link that `key_a` creates now.
    func claim(_ links: MediaLinks, _ id: UploadID, _ expiresAt: Date) throws -> MediaLinks.Claim {
        let query = links.query(for: id, expiresAt: expiresAt, issuer: "key_a", at: now)
        let parts = query.split(separator: "&").map { $0.split(separator: "=", maxSplits: 1).map { String($0) } }
        try #require(parts.map { $0[0] } == ["expires", "key", "issued", "signature"])
        return MediaLinks.Claim(
            expires: parts[0][1],
            issuer: parts[1][1],
            issued: parts[2][1],
            signature: parts[3][1]
        )
    }

    @Test("a media link works until its expiry, and names its issuer and time")
    func mediaLinks() throws {
        let links = MediaLinks(master: master)
        let id = UploadID.generate(at: now)
        let claim = try claim(links, id, now.addingTimeInterval(60.9))
        #expect(claim.expires == "1700000060")
        #expect(claim.signature.utf8.count == 22)
        let origin = try links.verify(claim, for: id, at: now)
        #expect(origin.issuer == "key_a" && origin.issuedAt == now)
        _ = try links.verify(claim, for: id, at: now.addingTimeInterval(59.9))
        let error = #expect(throws: UploadError.self) {
            try links.verify(claim, for: id, at: now.addingTimeInterval(60))
        }
        #expect(error?.code == .unauthenticated)
        #expect(error?.message.contains("expired") == true)
    }

    @Test("a link of an earlier version works until its expiry, without an issuer and with an early time")
    func olderMediaLinks() throws {
        let links = MediaLinks(master: master)
        let id = UploadID.generate(at: now)
        let expiry = now.addingTimeInterval(60).unixSeconds
        let signature = LinkSigner(master: master, purpose: "media link v1").sign(id.text, expiresAt: expiry)
        var claim = MediaLinks.Claim(expires: "\(expiry)", issuer: nil, issued: nil, signature: signature)
        let origin = try links.verify(claim, for: id, at: now)
        #expect(origin == MediaLinks.Origin(issuer: nil, issuedAt: .distantPast))
        claim.issuer = "key_a"
        claim.issued = "1700000000000"
        #expect(throws: UploadError.self) { try links.verify(claim, for: id, at: now) }
    }

    @Test("a media link for another media, expiry, key, time or server is refused")
    func forgedMediaLinks() throws {
        let links = MediaLinks(master: master)
        let id = UploadID.generate(at: now)
        let good = try claim(links, id, now.addingTimeInterval(60))
        let foreign = try claim(MediaLinks(master: other), id, now.addingTimeInterval(60))
        func changed(_ change: (inout MediaLinks.Claim) -> Void) -> MediaLinks.Claim {
            var claim = good
            change(&claim)
            return claim
        }
        let locator = UploadLocator(master: master).token(for: id).suffix(22)
        let bad: [(UploadID, MediaLinks.Claim)] =
            [
                (UploadID.generate(at: now), good),
                (id, changed { $0.signature = "" }),
                (id, changed { $0.signature += "A" }),
                (id, changed { $0.signature = foreign.signature }),
                (id, changed { $0.signature = String(locator) }),
                (id, changed { $0.issuer = "key_b" }),
                (id, changed { $0.issuer = nil }),
                (id, changed { $0.issued = "1700000000001" }),
                (id, changed { $0.issued = nil }),
                (id, changed { ($0.issuer, $0.issued) = (nil, nil) }),
            ]
            + [
                "1700000061", "+\(good.expires)", "0\(good.expires)", " \(good.expires)", "\(good.expires).0", "",
                "9999999999999999999999",
            ].map { expires in (id, changed { $0.expires = expires }) }
        for (id, claim) in bad {
            let error = #expect(throws: UploadError.self) { try links.verify(claim, for: id, at: now) }
            #expect(error?.code == .unauthenticated)
            #expect(error?.message.contains("expired") == false)
        }
    }

    @Test("dates beyond the range of seconds make links that work or have expired")
    func extremeDates() throws {
        let links = MediaLinks(master: master)
        let id = UploadID.generate(at: now)
        for (date, works) in [(Double.infinity, true), (1e300, true), (-1e300, false), (-.infinity, false)] {
            let claim = try claim(links, id, Date(timeIntervalSince1970: date))
            #expect(((try? links.verify(claim, for: id, at: now)) != nil) == works, "\(date)")
        }
        let never = Date(timeIntervalSince1970: .nan)
        _ = links.query(for: id, expiresAt: never, issuer: "key_a", at: never)
    }

    @Test("a token whose subject is empty, too long or has control characters is refused, even if correctly sealed")
    func subjects() throws {
        let sealer = GrantSealer(master: master)
        for (subject, isValid) in [
            ("", false), (String(repeating: "x", count: 257), false), ("a\nb", false), ("a\u{7F}", false),
            ("\u{85}", false), ("u", true), (String(repeating: "ü", count: 128), true), ("a b/c", true),
        ] {
            let grant = Grant(id: "g", subject: subject, expiresAt: now.addingTimeInterval(60))
            #expect(((try? sealer.open(sealer.seal(grant), at: now)) != nil) == isValid, "\(subject)")
        }
    }

    @Test("the issue time of a grant of an earlier version is taken from its id")
    func issueTimes() throws {
        var grant = Grant(id: Grant.newID(at: now), subject: nil, expiresAt: .distantFuture)
        #expect(grant.issueTime == now)
        grant.id = "key_a"
        #expect(grant.issueTime == .distantPast)
        grant.issuedAt = now.addingTimeInterval(1)
        #expect(grant.issueTime == now.addingTimeInterval(1))
    }
}
