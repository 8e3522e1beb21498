package import Foundation

/// What each account uses and is allowed to use.
package protocol AccountRecords: Sendable {
    /// The records of these accounts; accounts without one are missing from the result.
    func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord]

    /// Sets an account's own policy; `nil` removes it.
    func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError)
}
