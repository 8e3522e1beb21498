import Bytes
import Digests
import Foundation
import Signing
import SluiceTesting
import SystemIO
import Testing
import Transport

@testable import ACME

@Suite("Files of certificates", .timeLimit(.minutes(10)))
struct KeptFilesTests {
    private let directory: TemporaryDirectory
    private let files: KeptFiles
    private let io = BlockingIO.onCallingThread
    private static let now = 1_790_000_000.0

    init() throws {
        directory = try TemporaryDirectory()
        files = KeptFiles(folder: directory.path("acme/ca"), names: ["a.example.com", "b.example.com"])
    }

    private func issue(_ names: [String], at now: Double = Self.now) -> (chain: String, key: P256Key) {
        let made = SelfSignedCertificate(standingInFor: names, at: Int64(now))
        return (PEM.text("CERTIFICATE", made.encoded), made.key)
    }

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: directory.path(name))[.posixPermissions] as? Int
    }

    @Test("The account's key is made once, for this user only")
    func account() throws {
        let key = try files.accountKey(io)
        #expect(try files.accountKey(io).encoded == key.encoded)
        #expect(try mode("acme") == 0o700)
        #expect(try mode("acme/ca") == 0o700)
        #expect(try mode("acme/ca/account.pem") == 0o600)
        try Data("damaged".utf8).write(to: URL(filePath: directory.path("acme/ca/account.pem")))
        #expect(throws: ACMEFailure.self) { try files.accountKey(io) }
    }

    @Test("A certificate is kept with its key, and found")
    func certificate() throws {
        #expect(files.certificate() == nil)
        let (chain, key) = issue(files.names)
        let made = try files.replace(chain: chain, key: key, at: Self.now, io)
        #expect(try mode("acme/ca/certificate.pem") == 0o600)
        let found = try #require(files.certificate())
        #expect(found.validUntil == made.validUntil && found.validFrom == made.validFrom)
        #expect(Double(found.validUntil) > Self.now)
        #expect(KeptFiles(folder: files.folder, names: ["c.example.com"]).certificate() == nil)
        try Data("damaged".utf8).write(to: URL(filePath: directory.path("acme/ca/certificate.pem")))
        #expect(files.certificate() == nil)
    }

    @Test("One that cannot be used leaves the one before")
    func unusable() throws {
        let (chain, key) = issue(files.names)
        let before = try files.replace(chain: chain, key: key, at: Self.now, io)
        let wrong = [
            issue(["a.example.com"]), (issue(files.names).chain, P256Key()),
            issue(files.names, at: Self.now - 30 * 86_400), issue(files.names, at: Self.now + 5 * 86_400),
            ("", P256Key()),
        ]
        for (chain, key) in wrong {
            do throws(ACMEFailure) {
                _ = try files.replace(chain: chain, key: key, at: Self.now, io)
                Issue.record("it was taken")
            } catch {
                guard case .unusable = error else {
                    Issue.record("\(error)")
                    continue
                }
            }
        }
        #expect(files.certificate()?.validUntil == before.validUntil)
    }

    @Test("Another certificate stands in for TLS until there is one, and again if it is damaged")
    func standIn() throws {
        let other = SelfSignedCertificate(standingInFor: files.names, at: Int64(Self.now))
        let path = directory.path("acme/ca/certificate.pem")
        let kept = TLSFiles(certificate: path, key: path)
        let identity = TLSIdentity(certificate: other.encoded, key: other.key.encoded)
        let tls = try TLSContext([], kept: kept, standIn: identity, challenges: TLSChallenges())
        #expect(tls.expiresAt == nil)
        #expect(tls.paths == [path, path])
        let (chain, key) = issue(files.names)
        let made = try files.replace(chain: chain, key: key, at: Self.now, io)
        try tls.reload()
        #expect(tls.expiresAt == made.validUntil)
        try Data("damaged".utf8).write(to: URL(filePath: path))
        try tls.reload()
        #expect(tls.expiresAt == nil)
        #expect(throws: TLSFailure.self) { try TLSContext([], kept: kept) }
    }

    @Test("Attempts survive")
    func attempts() throws {
        #expect(files.attempts(io) == KeptFiles.Attempts())
        let attempts = KeptFiles.Attempts(failures: 3, lastAt: Self.now)
        try files.setAttempts(attempts, io)
        #expect(files.attempts(io) == attempts)
        try Data("{\"failures\":-9,\"lastAt\":1}".utf8).write(
            to: URL(filePath: directory.path("acme/ca/attempts.json"))
        )
        #expect(files.attempts(io).failures == 0)
        try Data("damaged".utf8).write(to: URL(filePath: directory.path("acme/ca/attempts.json")))
        #expect(files.attempts(io) == KeptFiles.Attempts())
    }

    @Test("Waits grow, have an end, and are no shorter than the authority asks")
    func pauses() {
        let refused = ACMEFailure.invalid(name: nil, nil)
        let waits = (1...10).map { CertificateKeeper.Pause.after($0, refused) }
        #expect(waits.prefix(4) == [60, 180, 540, 1620])
        #expect(waits[9] == 21_600)
        #expect(CertificateKeeper.Pause.after(.max, refused) == 21_600)
        #expect((1...10).map { CertificateKeeper.Pause.after($0, .unreachable("")) }.prefix(3) == [10, 20, 40])
        #expect(CertificateKeeper.Pause.after(.max, .unreachable("")) == 3600)
        let problem = ACMEProblem(JSONMembers())
        let limited = { ACMEFailure.refused(problem, status: 429, retryAfter: $0) }
        #expect(CertificateKeeper.Pause.after(1, limited(7000)) == 7000)
        #expect(CertificateKeeper.Pause.after(1, limited(1)) == 60)
        #expect(CertificateKeeper.Pause.after(1, limited(1e9)) == 86_400)
        #expect(CertificateKeeper.Pause.afterRestart(2) == 0)
        #expect(CertificateKeeper.Pause.afterRestart(3) == 540)
        #expect(CertificateKeeper.Pause.afterRestart(.max) == 600)
    }

    @Test("A certificate is renewed after two thirds of its lifetime, or a bit earlier")
    func renewal() throws {
        let (chain, key) = issue(files.names)
        let made = try files.replace(chain: chain, key: key, at: Self.now, io)
        let lifetime = Double(made.validUntil - made.validFrom)
        let latest = CertificateKeeper.renewal(of: made, jitter: 0)
        #expect(abs(latest - Double(made.validFrom) - lifetime * 2 / 3) < 1)
        let earliest = CertificateKeeper.renewal(of: made, jitter: 1.0 / 30)
        #expect(earliest < latest && earliest > Double(made.validFrom) + lifetime * 0.6)
    }
}
