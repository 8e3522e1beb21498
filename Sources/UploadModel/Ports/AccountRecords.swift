package import Foundation

/// What each account uses and is allowed to use.
package protocol AccountRecords: Sendable {
    /// The records of these accounts; accounts without one are missing from the result.
    func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord]

    /// What all accounts of a kind use together; takes time in proportion to their number.
    func totals(of kind: Account.Kind) async throws(UploadError) -> UsageTotals

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

/// What several accounts use together.
package struct UsageTotals: Sendable, Equatable {
    package var openUploads: Int64
    /// Without what is reserved for open uploads.
    package var storedBytes: Int64

    package init(openUploads: Int64 = 0, storedBytes: Int64 = 0) {
        self.openUploads = openUploads
        self.storedBytes = storedBytes
    }
}
