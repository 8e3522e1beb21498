internal import ACME
internal import Foundation
internal import GatewayKit
internal import SettingsKit
internal import Transport

extension Doctor {
    func certificates() -> [Diagnosis] {
        let tls = settings.general.tls
        let found = tls.files.map { files in certificate("tls.certificate", files) }
        guard let kept = settings.keptCertificate else { return found }
        let missing = "there is no certificate for the domains yet: a running gateway orders it"
        guard FileManager.default.fileExists(atPath: kept.certificate) else {
            return found + [.warning("acme.domains", missing)]
        }
        let names = settings.acme.domains
        let covered = (try? TLSCertificate(kept, lookingFor: names))?.names
        let absent = names.filter { covered?.contains($0) == false }
        guard absent.isEmpty else {
            let text =
                "\(kept.certificate) is not for \(absent.joined(separator: ", ")): a running gateway orders another one"
            return found + [.warning("acme.domains", text)]
        }
        return found + [certificate("acme.domains", kept)]
    }

    private func certificate(_ check: String, _ files: TLSFiles) -> Diagnosis {
        let context: TLSContext
        do throws(TLSFailure) {
            context = try TLSContext([files], clientAuthorities: settings.general.tls.clientAuthorities)
        } catch {
            return .failed(check, error.description)
        }
        guard let end = context.expiresAt else {
            return .warning(check, "\(files.certificate) does not say when it expires")
        }
        let left = Double(end) - Date().timeIntervalSince1970
        let day = Date(timeIntervalSince1970: Double(end)).formatted(.iso8601)
        if left <= 0 { return .failed(check, "\(files.certificate) expired at \(day): renew it") }
        if left < Double(TLSContext.lateRenewal) {
            return .warning(check, "\(files.certificate) expires at \(day): renew it")
        }
        return .ok(check, "\(files.certificate) belongs to its key, and expires at \(day)")
    }

    func authority() async -> [Diagnosis] {
        guard settings.acme.isOn else { return [] }
        let check = "acme.directory"
        if let problem = await ACMEProbe.problem(settings) { return [.failed(check, problem)] }
        return [.ok(check, "the certificate authority at \(settings.acme.directory) answers")]
    }
}
