package import Foundation
internal import Synchronization
package import UploadModel

/// The issuers whose tokens admit app users, as the settings name them now.
package final class LiveAppUserIssuers: AppUserTokens {
    private struct Contents {
        var issuers: AppUserIssuers
        var version = 0
    }

    private let contents: Mutex<Contents>

    package init(_ issuers: AppUserIssuers) { contents = Mutex(Contents(issuers: issuers)) }

    package var issuers: AppUserIssuers { contents.withLock(\.issuers) }

    package var version: Int { contents.withLock(\.version) }

    package func replace(with issuers: AppUserIssuers) {
        contents.withLock { contents in
            contents.issuers = issuers
            contents.version += 1
        }
    }

    package func key(in token: String, at now: Date) async throws(UploadError) -> APIKey {
        try await issuers.key(in: token, at: now)
    }

    /// Whether the issuer and audience with this name in place of an API key are trusted.
    package func trusts(_ id: String) -> Bool { issuers.trusts(id) }
}
