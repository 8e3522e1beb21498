import Foundation
import GatewayKit
import SettingsKit
import Signing
import SluiceTesting
import TencentVOD
import Testing
import UploadCore
import UploadModel

@testable import Administration
@testable import Stores

@Suite("first start", .timeLimit(.minutes(10)))
struct FirstStartTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("the master secret is created once, readable by its owner only, and read again")
    func masterSecret() throws {
        let directory = try TemporaryDirectory()
        let first = try MasterSecretFile.loadOrCreate(in: directory.path)
        let again = try MasterSecretFile.loadOrCreate(in: directory.path)
        #expect(first.key(for: "test") == again.key(for: "test"))
        let attributes = try FileManager.default.attributesOfItem(atPath: directory.path + "/master.secret")
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let elsewhere = try TemporaryDirectory()
        let other = try MasterSecretFile.loadOrCreate(in: elsewhere.path)
        #expect(first.key(for: "test") != other.key(for: "test"))
    }

    @Test("a leftover of a killed start is harmless")
    func leftOver() throws {
        let directory = try TemporaryDirectory()
        try Data("half".utf8).write(to: URL(filePath: directory.path + "/master.secret.new"))
        _ = try MasterSecretFile.loadOrCreate(in: directory.path)
        #expect(!FileManager.default.fileExists(atPath: directory.path + "/master.secret.new"))
    }

    @Test("a damaged secret stops the start instead of being replaced", arguments: ["", "not base64!", "c2hvcnQ="])
    func damaged(text: String) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/master.secret"
        try Data(text.utf8).write(to: URL(filePath: path))
        #expect(throws: StartFailure.self) { try MasterSecretFile.loadOrCreate(in: directory.path) }
        #expect(FileManager.default.contents(atPath: path) == Data(text.utf8))
    }

    @Test("a rotation adds a new secret before the old ones, in one change, readable by the owner only")
    func rotation() throws {
        let directory = try TemporaryDirectory()
        let first = try MasterSecretFile.loadOrCreate(in: directory.path)
        // A leftover of a crash.
        try Data("half".utf8).write(to: URL(filePath: directory.path + "/master.secret.new"))
        let second = try MasterSecretFile.rotate(in: directory.path)
        #expect(second.id != first.id && second.accepts(first))
        #expect(try MasterSecretFile.loadOrCreate(in: directory.path) == second)
        let third = try MasterSecretFile.rotate(in: directory.path)
        #expect(third.each.map(\.id) == [third.id, second.id, first.id])
        let path = directory.path + "/master.secret"
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        #expect(!FileManager.default.fileExists(atPath: path + ".new"))
        // The file is also a valid value of the setting.
        let text = String(decoding: try #require(FileManager.default.contents(atPath: path)), as: UTF8.self)
        #expect(MasterSecret(text: text) == third)

        let left = try MasterSecretFile.drop(second.id, in: directory.path)
        #expect(left.each.map(\.id) == [third.id, first.id])
        #expect(throws: StartFailure.self) { try MasterSecretFile.drop(second.id, in: directory.path) }
        #expect(throws: StartFailure.self) { try MasterSecretFile.drop(third.id, in: directory.path) }
        #expect(try MasterSecretFile.existing(in: directory.path) == left)
        while try MasterSecretFile.existing(in: directory.path)?.each.count != MasterSecret.maximumCount {
            _ = try MasterSecretFile.rotate(in: directory.path)
        }
        let full = try MasterSecretFile.existing(in: directory.path)
        #expect(throws: StartFailure.self) { try MasterSecretFile.rotate(in: directory.path) }
        #expect(try MasterSecretFile.existing(in: directory.path) == full)
    }

    @Test("a rotation by another user leaves the file to its owner", .enabled(if: geteuid() == 0))
    func rotationByRoot() throws {
        let directory = try TemporaryDirectory()
        _ = try MasterSecretFile.loadOrCreate(in: directory.path)
        let path = directory.path + "/master.secret"
        try #require(chown(path, 12_345, 12_346) == 0)
        _ = try MasterSecretFile.rotate(in: directory.path)
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.ownerAccountID] as? Int == 12_345 && attributes[.groupOwnerAccountID] as? Int == 12_346)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test("Tencent signatures from before a rotation stay valid until their secret is dropped")
    func rotatedTencent() throws {
        func tools(_ secrets: [UInt8]...) throws -> TencentTools {
            var settings = Settings()
            let master = try #require(MasterSecret(bytes: secrets[0], accepting: Array(secrets.dropFirst())))
            settings.general.masterSecret = Secret(master)
            return try TencentTools(settings, settings.master())
        }
        let (old, new) = ([UInt8](0..<32), [UInt8](1...32))
        let signature = try tools(old).sign(json: Array("{}".utf8))
        #expect(throws: Never.self) { try tools(new, old).verify(signature) }
        #expect(throws: StartFailure.self) { try tools(new).verify(signature) }
        #expect(try tools(new, old).secretID == tools(new).secretID)
        #expect(throws: Never.self) { try tools(new).verify(try tools(new, old).sign(json: Array("{}".utf8))) }
    }

    @Test("concurrent rotations lose nothing")
    func rotationsAtOnce() async throws {
        let directory = try TemporaryDirectory()
        let first = try MasterSecretFile.loadOrCreate(in: directory.path)
        let path = directory.path
        try await withThrowingTaskGroup { group in
            for _ in 0..<4 { group.addTask { _ = try MasterSecretFile.rotate(in: path) } }
            try await group.waitForAll()
        }
        let all = try #require(try MasterSecretFile.existing(in: path))
        #expect(all.each.count == 5 && all.each.last?.id == first.id)
    }

    @Test("without a secret there is nothing to rotate")
    func nothingToRotate() throws {
        let directory = try TemporaryDirectory()
        #expect(throws: StartFailure.self) { try MasterSecretFile.rotate(in: directory.path) }
        #expect(throws: StartFailure.self) { try MasterSecretFile.rotate(in: directory.path + "/missing") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [])
    }

    @Test("the first start creates a key, the second does not")
    func firstKey() async throws {
        let state = InMemoryState()
        guard case .created(let secret) = try await FirstKey.ensure(in: state, preset: nil, at: now) else {
            Issue.record("no key was made")
            return
        }
        #expect(try await state.key(digest: APIKeySecret.digest(of: secret))?.allows(.mint) == true)
        #expect(try await FirstKey.ensure(in: state, preset: nil, at: now) == .existing)
        #expect(try await state.keys().count == 1)
    }

    @Test("a preset key works at once, and its successor revokes it")
    func preset() async throws {
        let state = InMemoryState()
        #expect(try await FirstKey.ensure(in: state, preset: "first-preset-key", at: now) == .preset)
        #expect(try await FirstKey.ensure(in: state, preset: "first-preset-key", at: now) == .preset)
        #expect(try await FirstKey.ensure(in: state, preset: "second-preset-key", at: now) == .preset)
        let first = try await state.key(digest: APIKeySecret.digest(of: "first-preset-key"))
        let second = try await state.key(digest: APIKeySecret.digest(of: "second-preset-key"))
        #expect(first?.isUsable(at: now) == false)
        #expect(second?.isUsable(at: now) == true)
    }

    @Test("a preset key that was revoked stays revoked")
    func revokedPreset() async throws {
        let state = InMemoryState()
        _ = try await FirstKey.ensure(in: state, preset: "first-preset-key", at: now)
        let key = try #require(try await state.keys().first)
        _ = try await state.revokeKey(key.id, at: now)
        #expect(try await FirstKey.ensure(in: state, preset: "first-preset-key", at: now) == .revokedPreset)
        #expect(try await state.key(digest: key.digest)?.isUsable(at: now) == false)
    }
}
