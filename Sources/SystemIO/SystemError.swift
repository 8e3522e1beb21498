internal import Glibc

/// A system call that failed; for the log and for operators, never for a client.
package struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The name of the call, such as `bind`.
    package let call: String
    package let errno: Int32

    package init(_ call: String, errno: Int32) {
        self.call = call
        self.errno = errno
    }

    package var description: String { "\(call): \(reason)" }

    /// The text of `errno`, such as `Too many open files`.
    package var reason: String { String(cString: strerror(errno)) }

    /// Repeats the call while a signal interrupts it.
    ///
    /// - Returns: Its result, at least 0.
    /// - Throws: Any other failure.
    @discardableResult
    package static func check(_ call: String, _ body: () -> SystemResult) throws(SystemError) -> Int {
        let result = SystemResult.repeating(body)
        if let errno = result.errno { throw SystemError(call, errno: errno) }
        return result.value
    }
}

/// The result of a system call: a number of at least 0, or an `errno`.
///
/// A value, so that a fake needs no `errno` of its thread.
package struct SystemResult: Equatable, Sendable {
    /// The result; negative if the call failed.
    package let value: Int

    /// The result of a call of the C library; must be made before anything else changes `errno`.
    package init(_ result: some SignedInteger) {
        value = result < 0 ? -Int(Glibc.errno) : Int(result)
    }

    private init(value: Int) { self.value = value }

    package static let success = SystemResult(value: 0)

    package static func failed(_ errno: Int32) -> SystemResult { SystemResult(value: -Int(errno)) }

    /// Why the call failed; `nil` if it did not.
    package var errno: Int32? { value < 0 ? Int32(-value) : nil }

    /// Repeats a call while a signal interrupts it.
    package static func repeating(_ body: () -> SystemResult) -> SystemResult {
        while true {
            let result = body()
            if result.value != -Int(EINTR) { return result }
        }
    }
}

/// The result of a call on a non-blocking descriptor.
package enum IOResult: Equatable, Sendable {
    /// Moved this many bytes, at least 1.
    case moved(Int)
    /// Nothing to read, or no room to write: wait for readiness.
    case wouldBlockReading
    case wouldBlockWriting
    /// The peer will send nothing more.
    case ended
    case failed(errno: Int32)

    /// The result of a call that takes bytes from a socket; it is repeated while a signal interrupts it.
    package init(reading body: () -> SystemResult) {
        let result = SystemResult.repeating(body)
        self =
            switch result.errno {
            case nil: result.value == 0 ? .ended : .moved(result.value)
            case EAGAIN?, EWOULDBLOCK?: .wouldBlockReading
            case let errno?: .failed(errno: errno)
            }
    }

    /// The result of a call that passes bytes to a socket; it is repeated while a signal interrupts it.
    package init(writing body: () -> SystemResult) {
        let result = SystemResult.repeating(body)
        self =
            switch result.errno {
            case nil: .moved(result.value)
            case EAGAIN?, EWOULDBLOCK?: .wouldBlockWriting
            case let errno?: .failed(errno: errno)
            }
    }
}
