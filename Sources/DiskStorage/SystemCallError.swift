internal import Foundation
internal import UploadCore

#if canImport(Glibc)
internal import Glibc
#endif

/// A failed system call; for the log, never for a client.
struct SystemCallError: Error, Equatable, CustomStringConvertible {
    /// The name of the call, such as `pwrite`.
    let call: String
    /// Its `errno`.
    let number: Int32

    init(_ call: String, errno number: Int32) {
        self.call = call
        self.number = number
    }

    var description: String { "\(call): \(String(cString: strerror(number))) (errno \(number))" }

    /// Repeats a system call while signals interrupt it.
    ///
    /// - Returns: The non-negative result of `body`.
    static func check<Value: BinaryInteger>(_ call: String, _ body: () -> Value) throws(SystemCallError) -> Value {
        while true {
            let value = body()
            if value >= 0 { return value }
            let number = errno
            if number != EINTR { throw SystemCallError(call, errno: number) }
        }
    }
}

/// The only conversion from `errno` to a domain error.
extension UploadError {
    init(_ failure: SystemCallError) {
        switch failure.number {
        case ENOSPC, EDQUOT:
            self.init(.storageFull, "The storage has no room left; try again later.", cause: failure)
        default:
            self.init(.storageFailure, "The storage failed; try again later.", cause: failure)
        }
    }

    /// Like `init(_:)`, for a call that may find that the blob does not exist.
    init(opening failure: SystemCallError) {
        if failure.number == ENOENT {
            self.init(.notFound, "There is no such blob.", cause: failure)
        } else {
            self.init(failure)
        }
    }
}
