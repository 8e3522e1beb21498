internal import GatewayKit
internal import Logging
internal import Transport

/// Repeats a step of the start that needs another service until that service can be reached: containers start in any order.
///
/// Meanwhile the log says what is missing, and so does the status of a systemd unit.
///
/// - Parameters:
///   - service: Such as "the database".
///   - logger: Logs what is waited for.
///   - attempt: A failure with `isUnreachable` is repeated, without end. An attempt that takes long is announced, too.
/// - Returns: What the attempt returned that succeeded.
/// - Throws: Any other failure of `attempt`.
func waiting<Value>(
    for service: String,
    _ logger: Logger,
    _ attempt: () async throws(StartFailure) -> Value
) async throws(StartFailure) -> Value {
    var pause = Duration.seconds(1)
    while true {
        // Ends with the attempt.
        let notice = Task {
            try await Task.sleep(for: .seconds(2))
            announce(service, nil, logger)
        }
        defer { notice.cancel() }
        do throws(StartFailure) {
            return try await attempt()
        } catch {
            guard error.isUnreachable, !Task.isCancelled else { throw error }
            announce(service, error, logger)
        }
        try? await Task.sleep(for: pause)
        pause = min(pause * 2, .seconds(8))
    }
}

private func announce(_ service: String, _ failure: StartFailure?, _ logger: Logger) {
    // The unit may wait longer for this start, too.
    ServiceManager.notify("STATUS=Waiting for \(service)\nEXTEND_TIMEOUT_USEC=60000000")
    logger.warning("waiting for \(service)", metadata: failure.map { ["error": "\($0)"] })
}
