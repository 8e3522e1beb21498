internal import ACME
internal import CoreMetrics
internal import Foundation
internal import Logging
internal import MetricsKit
internal import ServiceLifecycle
internal import SystemIO
internal import Transport
internal import UnixSignals

/// Reads the certificate again when its files change, and at SIGHUP the settings, too.
struct CertificateWatch: Service {
    /// `nil` without TLS.
    let tls: TLSContext?
    let settings: SettingsReload
    let acme: ACMEModule
    let logger: Logger
    private let expiry: Meter?
    /// Trapped before the services start, so that no SIGHUP after the message that the gateway is ready is lost.
    private let hangUps: UnixSignalsSequence
    private static let interval = Duration.seconds(5)
    /// Between two warnings of one certificate.
    private static let warningInterval = Duration.seconds(86400)

    init(
        _ tls: TLSContext?,
        _ settings: SettingsReload,
        _ acme: ACMEModule,
        _ metrics: MetricsRegistry,
        _ logger: Logger
    ) async {
        (self.tls, self.settings, self.acme) = (tls, settings, acme)
        hangUps = await UnixSignalsSequence(trapping: .sighup)
        self.logger = logger
        expiry = tls.map { _ in
            metrics.gauge(
                "sluice_tls_certificate_expiry_time_seconds",
                "When the certificate expires, in Unix seconds."
            )
        }
        measure()
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                group.addTask { await watchFiles() }
                for await _ in hangUps {
                    ServiceManager.notify("RELOADING=1\nMONOTONIC_USEC=\(MonotonicClock.now / 1000)")
                    settings.apply()
                    reload("SIGHUP")
                    acme.hurry()
                    ServiceManager.notify("READY=1")
                }
                group.cancelAll()
            }
        }
    }

    private func watchFiles() async {
        guard let tls else { return }
        var known = Self.marks(of: tls.paths)
        var nextWarning = MonotonicClock.deadline(after: Self.warningInterval)
        while (try? await Task.sleep(for: Self.interval)) != nil {
            if MonotonicClock.now >= nextWarning {
                nextWarning = MonotonicClock.deadline(after: Self.warningInterval)
                warnOfEnd()
            }
            let current = Self.marks(of: tls.paths)
            guard current != known else { continue }
            // While one of both is not replaced yet, they do not belong together: the next look tries again.
            if reload("the files have changed") { known = current }
        }
    }

    @discardableResult
    private func reload(_ reason: String) -> Bool {
        guard let tls else { return true }
        do throws(TLSFailure) {
            try tls.reload()
        } catch {
            logger.warning(
                "the certificate was not read again; the one before stays in use",
                metadata: ["reason": "\(reason)", "error": "\(error)"]
            )
            return false
        }
        measure()
        logger.notice("the certificate was read again", metadata: ["reason": "\(reason)"])
        return true
    }

    private func measure() {
        if let end = tls?.expiresAt { expiry?.set(Double(end)) }
        warnOfEnd()
    }

    /// A certificate of an authority that speaks ACME is renewed here; the log says if that fails.
    private func warnOfEnd() {
        guard let tls, !tls.isRenewedHere, let end = tls.expiresAt else { return }
        let date = Date(timeIntervalSince1970: Double(end))
        guard date.timeIntervalSinceNow < Double(TLSContext.lateRenewal) else { return }
        logger.warning(
            date.timeIntervalSinceNow > 0 ? "the certificate expires soon: renew it" : "the certificate has expired",
            metadata: ["expires": "\(date.formatted(.iso8601))"]
        )
    }

    /// What changes with the content of files.
    private static func marks(of paths: [String]) -> [[String]] {
        paths.map { path in
            // What a link names.
            let file = URL(filePath: path).resolvingSymlinksInPath().path
            let values = try? FileManager.default.attributesOfItem(atPath: file)
            let keys: [FileAttributeKey] = [.modificationDate, .size, .systemFileNumber]
            return keys.map { key in values?[key].map { "\($0)" } ?? "" }
        }
    }
}
