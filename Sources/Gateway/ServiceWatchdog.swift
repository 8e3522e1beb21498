internal import Glibc
package import Transport

/// Tells the service manager again and again that this process works (sd_watchdog_enabled(3)); without these messages it restarts
/// the process.
package struct ServiceWatchdog: Sendable {
    private let pause: Duration
    private let loops: EventLoopGroup
    private let notify: @Sendable (String) -> Void

    /// `nil` if the service manager does not ask for it.
    ///
    /// - Parameters:
    ///   - environment: Of this process: `WATCHDOG_USEC`, and `WATCHDOG_PID` if it is for one process.
    ///   - process: The id of this process.
    ///   - loops: Each must do some work before every message.
    ///   - notify: Replaced in tests.
    package init?(
        environment: [String: String],
        process: Int32 = getpid(),
        loops: EventLoopGroup,
        notify: @escaping @Sendable (String) -> Void = ServiceManager.notify
    ) {
        guard let limit = environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), limit > 0 else { return nil }
        if let other = environment["WATCHDOG_PID"], other != String(process) { return nil }
        // sd_watchdog_enabled(3) advises half of it; a third leaves room on a busy machine.
        pause = .microseconds(limit / 3)
        self.loops = loops
        self.notify = notify
    }

    /// Returns when its task is cancelled.
    package func run() async {
        repeat {
            for loop in loops.loops {
                // A loop that hangs keeps this waiting, and that is what the service manager notices.
                await withUnsafeContinuation { continuation in loop.execute { continuation.resume() } }
            }
            notify("WATCHDOG=1")
        } while (try? await Task.sleep(for: pause)) != nil
    }
}
