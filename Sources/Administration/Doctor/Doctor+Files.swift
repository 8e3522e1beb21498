internal import DiskStorage
internal import Foundation
internal import GatewayKit
internal import SettingsKit
internal import Stores
internal import SystemIO
internal import Webhooks

extension Doctor {
    // MARK: The data directory

    func directory() -> [Diagnosis] {
        let path = settings.general.dataDirectory
        let check = "dataDir"
        var status = stat()
        guard stat(path, &status) == 0 else {
            guard errno == ENOENT else { return [.failed(check, "\(path) cannot be examined: \(Self.reason)")] }
            let parent = Self.existingParent(of: path)
            guard access(parent, W_OK | X_OK) == 0 else {
                return [
                    .failed(
                        check,
                        "\(path) is missing and cannot be created, because \(parent) cannot be written: \(Self.reason)"
                    )
                ]
            }
            if let problem = lackOfRecords(in: parent) { return [.failed(check, problem)] }
            return [.ok(check, "\(path) is missing; the first start creates it")]
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { return [.failed(check, "\(path) is not a directory")] }
        guard access(path, R_OK | W_OK | X_OK) == 0 else {
            return [
                .failed(
                    check,
                    "\(path) cannot be read and written by user \(geteuid()): \(Self.reason); give it to this user, or run as user \(status.st_uid)"
                )
            ]
        }
        var results: [Diagnosis] = []
        for name in [""] + DataDirectory.secretNames {
            if let result = Self.openToOthers(name.isEmpty ? path : path + "/" + name, check, isTightened: true) {
                results.append(result)
            }
        }
        if let problem = lackOfRecords(in: path) {
            results.append(.failed(check, problem))
        } else if probes, let problem = probe(path) {
            results.append(.failed(check, problem))
        }
        if results.isEmpty {
            results.append(.ok(check, "\(path) can be read and written, and only its owner has access"))
        }
        return results
    }

    /// Whether the gateway records in attributes of files what survives a power cut.
    private var keepsRecords: Bool { settings.general.storage == .disk && settings.general.durability != .none }

    private func lackOfRecords(in directory: String) -> String? {
        guard keepsRecords, !DataDirectory.keepsDurableRecords(at: directory) else { return nil }
        return DataDirectory.lackOfRecords(in: directory)
    }

    /// Writes, reads and removes a file, with an attribute if the gateway needs them.
    ///
    /// - Returns: What does not work.
    private func probe(_ directory: String) -> String? {
        let path = directory + "/doctor-" + UUID().uuidString
        let bytes = Array("A file of `sluice doctor`, which can be deleted.\n".utf8)
        let io = BlockingIO.onCallingThread
        do throws(SystemError) {
            let file = try io.open(path, O_RDWR | O_CREAT | O_EXCL)
            defer { try? io.remove(path) }
            if let failure = io.write(bytes, to: file, at: 0).failure { throw failure }
            try io.synchronizeAll(of: file)
            guard try io.read(file, at: 0, maximum: bytes.count + 1) == bytes else {
                return "\(path) was written and reads differently"
            }
            if keepsRecords, try !io.isInMemory(file) {
                try io.setAttribute("user.sluice.doctor", of: file, to: bytes)
                guard try io.attribute("user.sluice.doctor", of: file, maximum: bytes.count) == bytes else {
                    return "an attribute of \(path) was written and reads differently"
                }
            }
            return nil
        } catch {
            return "a file cannot be written and read in \(directory): \(error)"
        }
    }

    // MARK: Secrets

    func secretFiles() -> [Diagnosis] {
        let files = loaded.secretFiles + settings.general.tls.keys.map { ("tls.key", $0) }
        var results: [Diagnosis] = []
        for (key, path) in files {
            if let result = Self.openToOthers(path, key, isTightened: false) {
                results.append(result)
            } else if access(path, R_OK) != 0 {
                results.append(.failed(key, "\(path) cannot be read by user \(geteuid()): \(Self.reason)"))
            }
        }
        if results.isEmpty, !files.isEmpty {
            results.append(
                .ok("secrets", "only their owners have access to the \(Set(files.map(\.1)).count) files with secrets")
            )
        }
        return results
    }

    /// What is wrong if others than its owner, and perhaps its group, have access to what is at the path, if anything is;
    /// `isTightened` says that the start of the gateway removes permissions of others.
    private static func openToOthers(_ path: String, _ check: String, isTightened: Bool) -> Diagnosis? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        // Kubernetes and systemd give secrets to a group.
        let others: mode_t = isTightened ? 0o077 : 0o007
        if isTightened, geteuid() == 0, status.st_uid != 0 {
            return .warning(
                check,
                "\(path) belongs to user \(status.st_uid): the gateway must run as this user, not as root"
            )
        }
        guard status.st_mode & others != 0 else { return nil }
        let text = "other users have access to \(path) (mode 0\(String(status.st_mode & 0o777, radix: 8)))"
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        guard isTightened else { return .warning(check, "\(text): run `chmod o-rwx \(path)`") }
        if status.st_uid == geteuid() {
            let isOpen = isDirectory && status.st_mode & 0o022 != 0
            guard isOpen, (try? BlockingIO.onCallingThread.entries(of: path).isEmpty) == false else {
                return .warning(check, "\(text); the next start takes it from them")
            }
            return .failed(check, "\(text): remove what is not of Sluice, and then run `chmod 0700 \(path)`")
        }
        return .failed(
            check,
            "\(text), and it belongs to user \(status.st_uid): give it to user \(geteuid()), with mode 0\(isDirectory ? 7 : 6)00"
        )
    }

    // MARK: Space

    func space() -> [Diagnosis] {
        let directory = settings.general.dataDirectory
        var results = [Self.space("dataDir", in: directory, wanted: 0, "")]
        if settings.general.storage == .s3, settings.s3.spool > 0 {
            let spool = settings.s3.spoolDirectory ?? directory + "/spool"
            let hint = ", and s3.spool may take \(ByteCountText.format(settings.s3.spool))"
            results.append(Self.space("s3.spool", in: spool, wanted: settings.s3.spool, hint))
        }
        return results
    }

    /// Less is nearly full.
    private static let leastFree: Int64 = 1 << 30

    private static func space(_ check: String, in path: String, wanted: Int64, _ hint: String) -> Diagnosis {
        let place = existingParent(of: path)
        var status = statvfs()
        guard statvfs(place, &status) == 0 else {
            return .warning(check, "the free space of \(place) cannot be read: \(reason)")
        }
        let free = Int64(clamping: UInt64(status.f_bavail) * UInt64(status.f_frsize))
        let text = "\(free >> 20) MiB are free in the file system of \(place)"
        // Some file systems have no fixed number of files, and say 0.
        if status.f_files > 0, status.f_favail == 0 {
            return .failed(check, "the file system of \(place) can hold no more files: remove some")
        }
        if free == 0 { return .failed(check, "\(text): uploads are refused; make room") }
        let least = max(leastFree, wanted)
        return free < least ? .warning(check, "\(text)\(hint): make room") : .ok(check, text)
    }

    // MARK: Programs

    func hookPrograms() -> [Diagnosis] {
        guard let path = settings.hooks.directory else { return [] }
        let check = "hooks.directory"
        let directory = HookDirectory(path, running: settings.hooks.events, .onCallingThread)
        let results =
            directory.problems.map { Diagnosis.failed(check, $0) } + directory.remarks.map { .warning(check, $0) }
        let names = directory.hooks.map(\.rawValue).sorted().joined(separator: ", ")
        return results.isEmpty ? [.ok(check, "\(path) has programs for \(names)")] : results
    }

    // MARK: Steps

    private static var reason: String { String(cString: strerror(errno)) }

    /// The path, or the nearest directory above it that exists.
    static func existingParent(of path: String) -> String {
        var url = URL(filePath: path).standardizedFileURL
        while access(url.path, F_OK) != 0, url.path != "/" { url.deleteLastPathComponent() }
        return url.path
    }
}
