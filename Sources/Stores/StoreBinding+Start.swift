package import GatewayKit
package import Logging
package import UploadCore
internal import UploadModel

extension StoreBinding {
    /// Binds state and storage when a gateway starts, or logs an error why it cannot.
    ///
    /// - Returns: Why they do not belong together.
    /// - Throws: `StartFailure` if one of them cannot be reached.
    package func checked(_ logger: Logger) async throws(StartFailure) -> StoreMismatch? {
        let mismatch: StoreMismatch?
        do throws(UploadError) {
            mismatch = try await bind()
        } catch {
            let cause = error.cause.map { " (\($0))" } ?? ""
            throw StartFailure(
                "cannot determine whether state and storage belong together: \(error.message)\(cause)",
                isUnreachable: error.code == .unavailable
            )
        }
        if let mismatch { logger.error("\(mismatch.description)", metadata: ["code": "\(mismatch.rawValue)"]) }
        return mismatch
    }
}
