package import Foundation

/// What each account uses and is allowed to use.
package protocol AccountRecords: Sendable {
    /// The records of these accounts; accounts without one are missing from the result.
    func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord]

    /// Sets an account's own policy; `nil` removes it.
    func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError)

    /// Changes the usage of accounts for uploads that have no record here.
    ///
    /// - Parameters:
    ///   - changes: By account; nothing is changed unless the limits of all accounts allow it.
    ///   - creation: When the uploads were created.
    ///   - effectiveLimits: The limits of the accounts; `nil` if the changes only reduce usage.
    /// - Throws: `.quotaExceeded`, `.tooLarge`; `.storageFull`, `.storageFailure`.
    func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) async throws(UploadError)
}
