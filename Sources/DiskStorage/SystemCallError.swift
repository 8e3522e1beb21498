internal import Foundation
internal import UploadCore

#if canImport(Glibc)
internal import Glibc
#endif

/// A system call that failed; goes into the log, never to a client.
struct SystemCallError: Error, Equatable, CustomStringConvertible {
    /// Name of the call, such as `pwrite`.
    let call: String
    /// Its `errno`.
    let number: Int32

    init(_ call: String, errno number: Int32) {
        self.call = call
        self.number = number
    }

    var description: String { "\(call): \(String(cString: strerror(number))) (errno \(number))" }

    /// Runs a system call again while signals interrupt it.
    ///
    /// - Returns: What `body` returns, which is not negative.
    static func check<Value: BinaryInteger>(_ call: String, _ body: () -> Value) throws(SystemCallError) -> Value {
        while true {
            let value = body()
            if value >= 0 { return value }
            let number = errno
            if number != EINTR { throw SystemCallError(call, errno: number) }
        }
    }
}

/// The one place where an `errno` becomes an error of the domain.
extension UploadError {
    init(_ failure: SystemCallError) {
        switch failure.number {
        case ENOSPC, EDQUOT:
            self.init(.storageFull, "The storage has no room left; try again later.", cause: failure)
        default:
            self.init(.storageFailure, "The storage failed; try again later.", cause: failure)
        }
    }

    /// As above, for a call that finds out whether a blob exists.
    init(opening failure: SystemCallError) {
        if failure.number == ENOENT {
            self.init(.notFound, "There is no such blob.", cause: failure)
        } else {
            self.init(failure)
        }
    }
}
