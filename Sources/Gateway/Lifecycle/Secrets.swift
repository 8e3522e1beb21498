internal import Bytes
internal import Foundation
internal import UploadCore

/// What went wrong at the start, for the operator.
package struct StartFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
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
