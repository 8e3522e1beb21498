internal import Bytes
package import Foundation
internal import UploadCore
package import UploadModel

/// The initial API key.
package enum FirstKey: Sendable, Equatable {
    /// Created now; the secret is shown only this time.
    case created(secret: String)
    /// Set by the configuration.
    case preset
    /// The configured key was revoked, and stays so.
    case revokedPreset
    /// Other keys already exist.
    case existing

    /// Ensures that there is an initial key; if several nodes start at once, only one creates it.
    ///
    /// - Parameters:
    ///   - state: The store of the keys.
    ///   - preset: `SLUICE_ADMIN_KEY`; a preset key of an earlier configuration is revoked.
    ///   - now: The time of day.
    /// - Returns: Where the key came from.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package static func ensure(
        in state: any KeyRecords,
        preset: String?,
        at now: Date
    ) async throws(UploadError) -> FirstKey {
        do throws(UploadError) {
            return try await attempt(in: state, preset: preset, at: now)
        } catch  where error.code == .invalidRequest {
            // Another node has created it meanwhile, so the second attempt sees it.
            return try await attempt(in: state, preset: preset, at: now)
        }
    }

    private static func attempt(
        in state: any KeyRecords,
        preset: String?,
        at now: Date
    ) async throws(UploadError) -> FirstKey {
        let keys = try await state.keys()
        guard let preset else {
            for key in keys where key.isPreset && key.revokedAt == nil {
                _ = try await state.revokeKey(key.id, at: now)
            }
            if keys.contains(where: { !$0.isPreset }) { return .existing }
            // Always the same id, so that it can be created only once.
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
