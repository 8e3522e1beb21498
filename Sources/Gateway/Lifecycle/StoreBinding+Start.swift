internal import Logging
internal import UploadCore

extension StoreBinding {
    /// Binds state and storage at the start of a gateway, or says loudly why not.
    ///
    /// - Returns: Why they are no pair.
    /// - Throws: `StartFailure` when one of both cannot be asked.
    func checked(_ logger: Logger) async throws(StartFailure) -> StoreMismatch? {
        let mismatch: StoreMismatch?
        do throws(UploadError) {
            mismatch = try await bind()
        } catch {
            let cause = error.cause.map { " (\($0))" } ?? ""
            throw StartFailure("whether state and storage belong together cannot be seen: \(error.message)\(cause)")
        }
        if let mismatch { logger.error("\(mismatch.description)", metadata: ["code": "\(mismatch.rawValue)"]) }
        return mismatch
    }
}
