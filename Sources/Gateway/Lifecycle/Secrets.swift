internal import Bytes
internal import Digests
internal import Foundation
internal import Signing
internal import UploadCore

/// What went wrong at the start, for the operator.
package struct StartFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// The secret from which all others are derived.
enum MasterSecretFile {
    /// The secret in `<data directory>/master.secret`, made on the first start.
    ///
    /// The file holds 32 random bytes as base64 and is readable by its owner only. Whoever loses it invalidates all
    /// upload URLs, tokens and links; so it is made durable before anything is derived from it.
    static func loadOrCreate(in directory: String) throws(StartFailure) -> MasterSecret {
        let path = path(in: directory)
        if let secret = try load(path) { return secret }
        let temporary = path + ".new"
        unlink(temporary)
        let descriptor = open(temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("can not be made", path) }
        defer { close(descriptor) }
        let text = Array((Base64.encode(SecureRandom.bytes(32)) + "\n").utf8)
        let isWritten = text.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == text.count
        guard isWritten, fsync(descriptor) == 0 else { throw failure("can not be written", path) }
        // A link, not a rename: of two first starts at once, the second takes the secret of the first.
        if link(temporary, path) != 0, errno != EEXIST { throw failure("can not be made", path) }
        unlink(temporary)
        let folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if folder >= 0 {
            fsync(folder)
            close(folder)
        }
        guard let secret = try load(path) else { throw failure("can not be read", path) }
        return secret
    }

    static func path(in directory: String) -> String { directory + "/master.secret" }

    /// The secret in `<data directory>/master.secret`; `nil` if there is no such file.
    static func existing(in directory: String) throws(StartFailure) -> MasterSecret? { try load(path(in: directory)) }

    private static func load(_ path: String) throws(StartFailure) -> MasterSecret? {
        guard let data = FileManager.default.contents(atPath: path) else {
            if access(path, F_OK) == 0 { throw failure("can not be read", path) }
            return nil
        }
        let text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard let bytes = Base64.decode(text), let secret = MasterSecret(bytes: bytes) else {
            throw StartFailure("\(path) must hold at least 32 bytes as base64; restore it from a backup")
        }
        return secret
    }

    private static func failure(_ what: String, _ path: String) -> StartFailure {
        StartFailure("\(path) \(what): \(String(cString: strerror(errno)))")
    }
}

/// The key with which everything begins.
package enum FirstKey: Sendable, Equatable {
    /// Made now; this is the only time that the secret is seen.
    case created(secret: String)
    /// Given by the configuration.
    case preset
    /// The configured key was revoked, and stays so.
    case revokedPreset
    /// There are keys already.
    case existing

    /// Makes sure that there is a key to begin with; of several nodes that start at the same time one makes it.
    ///
    /// - Parameters:
    ///   - state: Where keys are kept.
    ///   - preset: `SLUICE_ADMIN_KEY`; a preset key of an earlier configuration is revoked.
    ///   - now: The time of day.
    /// - Returns: How the key came to be.
    /// - Throws: `.storageFull`, `.storageFailure`.
    static func ensure(
        in state: any StateStore,
        preset: String?,
        at now: Date
    ) async throws(UploadError) -> FirstKey {
        do throws(UploadError) {
            return try await attempt(in: state, preset: preset, at: now)
        } catch  where error.code == .invalidRequest {
            // Another node has made it meanwhile, and is seen now.
            return try await attempt(in: state, preset: preset, at: now)
        }
    }

    private static func attempt(
        in state: any StateStore,
        preset: String?,
        at now: Date
    ) async throws(UploadError) -> FirstKey {
        let keys = try await state.keys()
        guard let preset else {
            for key in keys where key.isPreset && key.revokedAt == nil {
                _ = try await state.revokeKey(key.id, at: now)
            }
            if keys.contains(where: { !$0.isPreset }) { return .existing }
            // Always this id, so that it can be made only once.
            let (secret, key) = APIKeySecret.generate(
                id: "key_first",
                name: "first",
                scopes: [.admin],
                expiresAt: nil,
                at: now
            )
            try await state.insert(key)
            return .created(secret: secret)
        }
        let digest = APIKeySecret.digest(of: preset)
        for key in keys where key.isPreset && key.revokedAt == nil && key.digest != digest {
            _ = try await state.revokeKey(key.id, at: now)
        }
        if let known = keys.first(where: { $0.digest == digest }) {
            return known.revokedAt == nil ? .preset : .revokedPreset
        }
        let key = APIKey(
            id: "key_" + Hexadecimal.encode(digest.prefix(8)),
            name: "preset",
            scopes: [.admin],
            createdAt: now,
            digest: digest,
            isPreset: true
        )
        try await state.insert(key)
        return .preset
    }
}
