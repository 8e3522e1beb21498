internal import CoreMetrics
internal import Digests
internal import Foundation
internal import Logging
internal import Synchronization
internal import SystemIO
internal import Telemetry
internal import Transport
internal import UploadModel

/// Orders the first certificate, renews it before it expires, and waits after failures.
final class CertificateKeeper: Sendable {
    /// Seconds after failures.
    enum Pause {
        static let longest = 6 * 3600.0
        private static let longestTransient = 3600.0
        private static let longestAsked = 86_400.0
        private static let longestAfterRestart = 600.0

        /// - Parameters:
        ///   - failures: In a row, at least 1.
        ///   - failure: The last one.
        /// - Returns: Without jitter. Five attempts in the first hour, as many as Let's Encrypt allows for a name.
        static func after(_ failures: Int, _ failure: ACMEFailure) -> Double {
            let power = Double(min(failures, 20) - 1)
            let own =
                failure.isTransient
                ? min(10 * pow(2, power), longestTransient) : min(60 * pow(3, power), longest)
            return max(own, min(failure.retryAfter ?? 0, longestAsked))
        }

        /// After a restart, by which an operator may have mended the cause; or it is one of many of a process that fails.
        static func afterRestart(_ failures: Int) -> Double {
            failures <= 2 ? 0 : min(60 * pow(3, Double(min(failures, 20) - 1)), longestAfterRestart)
        }
    }

    private let files: KeptFiles
    private let order: @Sendable (P256Key) -> CertificateOrder
    private let reload: @Sendable () throws(TLSFailure) -> Void
    private let pool: BlockingPool
    private let clock: any WallClock
    private let logger: Logger
    private let orders: (ok: Counter, failed: Counter)
    private let waiting = Mutex(Waiting())

    private struct Waiting {
        var nap: Task<Void, Never>?
        /// Whether the wait after a failure is over.
        var isHurried = false
    }

    /// - Parameters:
    ///   - files: Of the authority.
    ///   - pool: For them.
    ///   - clock: The time.
    ///   - logger: Reports each order.
    ///   - orders: Counts them.
    ///   - reload: Uses the certificate for new connections.
    ///   - order: Makes an order for an account.
    init(
        _ files: KeptFiles,
        pool: BlockingPool,
        clock: any WallClock,
        logger: Logger,
        orders: (ok: Counter, failed: Counter),
        reload: @escaping @Sendable () throws(TLSFailure) -> Void,
        order: @escaping @Sendable (P256Key) -> CertificateOrder
    ) {
        (self.files, self.pool, self.clock, self.logger, self.orders) = (files, pool, clock, logger, orders)
        (self.reload, self.order) = (reload, order)
    }

    private var now: Double { clock.now.timeIntervalSince1970 }

    /// Ends the wait after a failure.
    func hurry() {
        waiting.withLock { waiting in
            waiting.isHurried = true
            waiting.nap?.cancel()
        }
    }

    /// Works until the task is cancelled.
    func run() async {
        var failures: Int
        // Monotonic: a change of the wall clock must not move it.
        var earliest: ContinuousClock.Instant
        do {
            let attempts = await pool.run { [files] io in files.attempts(io) }
            failures = attempts.failures
            let rest = Pause.afterRestart(failures) - max(0, now - attempts.lastAt)
            earliest = .now + .seconds(max(0, rest))
        }
        // A fraction of the lifetime, so that gateways that started together do not renew together.
        let jitter = Double.random(in: 0..<(1.0 / 30))
        if await certificate() == nil {
            logger.notice(
                "there is no certificate for acme.domains yet; until the certificate authority issues one, clients cannot trust this gateway",
                metadata: ["domains": "\(files.names.joined(separator: ", "))"]
            )
        }
        while !Task.isCancelled {
            let due = await certificate().map { Self.renewal(of: $0, jitter: jitter) - now } ?? 0
            let wait = ContinuousClock.Instant.now.duration(to: earliest) / .seconds(1)
            if due <= 0, takeHurry() || wait <= 0 {
                (failures, earliest) = await attempt(after: failures)
            } else {
                // Looks again from time to time: a clock can be set, and files removed.
                await nap(seconds: min(max(due, wait), 3600))
            }
        }
    }

    /// Two thirds of the lifetime, or a bit earlier.
    static func renewal(of certificate: TLSCertificate, jitter: Double) -> Double {
        let lifetime = Double(certificate.validUntil - certificate.validFrom)
        return Double(certificate.validFrom) + lifetime * (2.0 / 3 - jitter)
    }

    private func certificate() async -> TLSCertificate? {
        await pool.run { [files] (_: BlockingIO) in files.certificate() }
    }

    /// One order.
    ///
    /// - Parameter failures: Attempts since the last certificate.
    /// - Returns: The same, and when the next one may follow.
    private func attempt(after failures: Int) async -> (failures: Int, earliest: ContinuousClock.Instant) {
        let begun = KeptFiles.Attempts(failures: failures + 1, lastAt: now)
        do throws(ACMEFailure) {
            // First, so that a process that ends again and again counts.
            try await keep(begun)
            let new = try await ordered()
            orders.ok.increment()
            let end = Date(timeIntervalSince1970: Double(new.validUntil))
            logger.notice(
                "a certificate was issued",
                metadata: [
                    "domains": "\(files.names.joined(separator: ", "))", "expires": "\(end.formatted(.iso8601))",
                ]
            )
            try? await keep(KeptFiles.Attempts())
            // Not at once again, if one of both clocks is wrong.
            return (0, .now + .seconds(Double(new.validUntil - new.validFrom) / 6))
        } catch .cancelled {
            // It stays counted: a gateway can be restarted again and again, too.
            return (begun.failures, .now)
        } catch {
            orders.failed.increment()
            let wait = Pause.after(begun.failures, error) * Double.random(in: 0.9...1.1)
            logger.error(
                "no certificate was issued",
                metadata: [
                    "error": "\(error)", "failures": .number(begun.failures), "retryInSeconds": .number(Int(wait)),
                ]
            )
            return (begun.failures, .now + .seconds(wait))
        }
    }

    private func ordered() async throws(ACMEFailure) -> TLSCertificate {
        let account = try await pool.run { [files] (io) throws(ACMEFailure) in try files.accountKey(io) }
        let (key, chain) = try await order(account).certificate()
        let time = now
        let new = try await pool.run { [files] (io) throws(ACMEFailure) in
            try files.replace(chain: chain, key: key, at: time, io)
        }
        do throws(TLSFailure) {
            try reload()
        } catch {
            // That of `tls.certificate` is checked with it, and may be in the middle of a change: the watch tries again.
            logger.warning("the new certificate is not in use yet", metadata: ["error": "\(error)"])
        }
        return new
    }

    private func keep(_ attempts: KeptFiles.Attempts) async throws(ACMEFailure) {
        try await pool.run { [files] (io) throws(ACMEFailure) in try files.setAttempts(attempts, io) }
    }

    private func takeHurry() -> Bool {
        waiting.withLock { waiting in
            defer { waiting.isHurried = false }
            return waiting.isHurried
        }
    }

    private func nap(seconds: Double) async {
        let nap = waiting.withLock { waiting -> Task<Void, Never>? in
            guard !waiting.isHurried else {
                // Without an order that is due there is nothing to hurry for.
                waiting.isHurried = false
                return nil
            }
            let nap = Task { () -> Void in try? await Task.sleep(for: .milliseconds(Int64(max(0.1, seconds) * 1000))) }
            waiting.nap = nap
            return nap
        }
        guard let nap else { return }
        await withTaskCancellationHandler {
            await nap.value
        } onCancel: {
            nap.cancel()
        }
    }
}
