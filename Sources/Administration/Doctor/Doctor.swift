internal import Foundation
internal import GatewayKit
internal import ObjectGateway
package import SettingsKit
internal import UploadModel

/// Looks for what would go wrong when a gateway starts or runs; changes nothing, unless it is told to probe.
///
/// It works before the first start and beside a running gateway.
package struct Doctor: Sendable {
    let loaded: LoadedSettings
    /// Whether it writes, reads and deletes a small file in the data directory, and an object in the store.
    let probes: Bool

    var settings: Settings { loaded.values }

    package init(_ loaded: LoadedSettings, probes: Bool) {
        self.loaded = loaded
        self.probes = probes
    }

    /// - Parameter report: Called with each result, in order.
    package func run(report: (Diagnosis) -> Void) async {
        let openFiles = openFileLimit()
        ProcessSetup.prepare()
        report(.ok("settings", "they are valid"))
        for result in directory() + secretFiles() + space() + [openFiles, clock()] { report(result) }
        for result in await state() { report(result) }
        if settings.general.storage == .s3 {
            for result in await store() { report(result) }
        }
        for result in hookPrograms() + certificates() + proxies() + promises() { report(result) }
        for result in await authority() + listeners() { report(result) }
    }

    /// A result for each problem of settings that cannot be loaded; nothing else can be checked then.
    package static func results(of problems: SettingsProblems) -> [Diagnosis] {
        problems.problems.map { .failed("settings", "\($0)") }
    }

    // MARK: Time

    /// Before this version was made: the first of July 2026.
    private static let earliest = Date(timeIntervalSince1970: 1_782_864_000)

    private func clock() -> Diagnosis {
        let now = Date()
        let text = now.formatted(.iso8601)
        guard now > Self.earliest else {
            return .failed(
                "clock",
                "this machine's clock says \(text), which is long ago: set it, for example by NTP; credentials and certificates depend on it"
            )
        }
        return .ok("clock", "this machine's clock says \(text)")
    }

    /// The clock of another machine, compared with this one's.
    ///
    /// Clouds and S3 stores refuse signatures that are more than a quarter of an hour off.
    static func comparedClock(_ check: String, _ owner: String, ahead: TimeInterval) -> Diagnosis {
        let seconds = Int64(abs(ahead).rounded())
        let text = "this machine's clock is \(seconds) s \(ahead > 0 ? "behind" : "ahead of") that of \(owner)"
        if seconds >= 300 {
            return .failed(check, text + ": signatures are refused; synchronise both, for example by NTP")
        }
        if seconds >= 30 { return .warning(check, text + ": synchronise both, for example by NTP") }
        return .ok(check, "this machine's clock and that of \(owner) agree within \(max(1, seconds)) s")
    }

    // MARK: Limits of the process

    /// Must be called before `ProcessSetup.prepare`, which raises the limit.
    private func openFileLimit() -> Diagnosis {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            return .warning("openFiles", "the limit on open files cannot be read")
        }
        // Each connection needs one; the rest is for files of uploads, state, store and log.
        let wanted = UInt64(settings.limits.connections) + 256
        let text = "this process may have \(limit.rlim_max) open files"
        guard limit.rlim_max >= wanted else {
            return .warning(
                "openFiles",
                "\(text), and \(wanted) are needed for limits.connections = \(settings.limits.connections): raise the limit (`ulimit -Hn`, LimitNOFILE= of systemd), or lower limits.connections"
            )
        }
        return .ok("openFiles", text)
    }

    // MARK: Promises

    /// Settings that are allowed, and whose effect one should know.
    private func promises() -> [Diagnosis] {
        var results: [Diagnosis] = []
        if settings.general.durability == .none {
            results.append(
                .warning(
                    "durability",
                    "with durability = none a power cut can lose uploads that clients believe complete; use acknowledged or completed unless they can be repeated"
                )
            )
        }
        for rule in settings.object.publicRead {
            let bucket = String(rule.prefix { $0 != "/" })
            if !settings.object.buckets.contains(bucket) {
                results.append(
                    .warning(
                        "object.publicRead",
                        "the bucket \(bucket) is not in object.buckets: add it there, so that it exists after the next start"
                    )
                )
            }
            if rule.count > bucket.count, rule.last != "/" {
                results.append(
                    .warning(
                        "object.publicRead",
                        "\(rule) also makes keys public that go on after it, such as \(rule)-2: end it with a slash, unless you want that"
                    )
                )
            }
        }
        return results
    }
}
