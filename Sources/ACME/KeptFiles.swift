internal import Bytes
internal import Digests
internal import DiskStorage
internal import Glibc
internal import SystemIO
internal import Transport

/// Account, certificate and attempts on disk, for this user only; a restart finds them.
///
/// Each file is replaced as a whole, and is on stable storage before it is used.
struct KeptFiles: Sendable {
    /// Attempts since the last certificate, also those that the end of the process interrupted.
    struct Attempts: Sendable, Equatable {
        var failures = 0
        /// Unix seconds.
        var lastAt = 0.0
    }

    /// The data directory's folder for all authorities, and that of this one.
    let folder: String
    let names: [String]

    /// Chain and key.
    private var certificatePath: String { folder + "/certificate.pem" }
    private var accountPath: String { folder + "/account.pem" }
    private var attemptsPath: String { folder + "/attempts.json" }

    /// Removes the permissions of others.
    ///
    /// - Throws: Also for links and files of other users.
    func tighten() throws(PrivatePath.Failure) {
        for path in [accountPath, certificatePath] { _ = try PrivatePath.tighten(path) }
    }

    /// The stored certificate, which may have expired; `nil` if it cannot be read or does not cover all names.
    func certificate() -> TLSCertificate? {
        let files = TLSFiles(certificate: certificatePath, key: certificatePath)
        let found = try? TLSCertificate(files, lookingFor: names)
        return found.flatMap { $0.names.count == names.count ? $0 : nil }
    }

    /// Replaces the certificate.
    ///
    /// - Parameters:
    ///   - chain: In PEM.
    ///   - key: Of the certificate.
    ///   - now: Unix seconds.
    ///   - io: Of the pool.
    /// - Returns: The new one.
    /// - Throws: `.unusable` unless it is for this key, all names and now; the one before stays.
    func replace(chain: String, key: P256Key, at now: Double, _ io: BlockingIO) throws(ACMEFailure) -> TLSCertificate {
        let temporary = try write(Array((chain + key.pem).utf8), beside: certificatePath, io)
        let new: TLSCertificate
        do throws(TLSFailure) {
            new = try TLSCertificate(TLSFiles(certificate: temporary, key: temporary), lookingFor: names)
        } catch {
            throw .unusable(error.description)
        }
        let missing = names.filter { !new.names.contains($0) }
        guard missing.isEmpty else { throw .unusable("it is not for \(missing.joined(separator: ", "))") }
        guard Double(new.validUntil) > now else { throw .unusable("it has expired; is this machine's clock right?") }
        guard Double(new.validFrom) <= now + Self.tolerance else {
            throw .unusable("it is not valid yet; is this machine's clock right?")
        }
        try put(temporary, at: certificatePath, io)
        return new
    }

    /// Seconds by which this machine's clock may be behind the authority's.
    private static let tolerance = 300.0

    /// The key of the account; generated and stored on first use.
    ///
    /// - Throws: `.storage`, also if the file has no such key: a new one would be another account.
    func accountKey(_ io: BlockingIO) throws(ACMEFailure) -> P256Key {
        if let bytes = try read(accountPath, io) {
            guard let key = P256Key(pem: String(decoding: bytes, as: UTF8.self)) else {
                throw .storage(
                    "\(accountPath) has no key of P-256; remove it, and the next attempt makes a new account"
                )
            }
            return key
        }
        let key = P256Key()
        try put(try write(Array(key.pem.utf8), beside: accountPath, io), at: accountPath, io)
        return key
    }

    func attempts(_ io: BlockingIO) -> Attempts {
        guard let bytes = try? read(attemptsPath, io), let members = JSONValue(json: bytes)?.members,
            case .integer(let failures)? = members["failures"], case .integer(let at)? = members["lastAt"]
        else { return Attempts() }
        return Attempts(failures: Int(clamping: max(0, failures)), lastAt: Double(at))
    }

    func setAttempts(_ attempts: Attempts, _ io: BlockingIO) throws(ACMEFailure) {
        var writer = JSONObjectWriter(capacity: 60)
        writer.member("failures", Int64(attempts.failures))
        writer.member("lastAt", Int64(attempts.lastAt))
        try put(try write(writer.finish(lineFeed: true), beside: attemptsPath, io), at: attemptsPath, io)
    }

    private func read(_ path: String, _ io: BlockingIO) throws(ACMEFailure) -> [UInt8]? {
        do throws(SystemError) {
            let file = try io.open(path, O_RDONLY | O_NOFOLLOW)
            return try io.read(file, at: 0, maximum: 64 << 10)
        } catch {
            if error.errno == ENOENT { return nil }
            throw .storage("\(path): \(error)")
        }
    }

    /// - Returns: The path of the new file, which is on stable storage.
    private func write(_ bytes: [UInt8], beside path: String, _ io: BlockingIO) throws(ACMEFailure) -> String {
        let temporary = path + ".new"
        do throws(SystemError) {
            try makeFolder(io)
            // Of an attempt that was interrupted.
            try io.remove(temporary)
            let file = try io.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
            if let failure = io.write(bytes, to: file, at: 0).failure { throw failure }
            try io.synchronizeAll(of: file)
        } catch {
            throw .storage("\(temporary): \(error)")
        }
        return temporary
    }

    private func put(_ temporary: String, at path: String, _ io: BlockingIO) throws(ACMEFailure) {
        do throws(SystemError) {
            try io.rename(temporary, to: path)
            try io.synchronizeDirectory(folder)
        } catch {
            throw .storage("\(path): \(error)")
        }
    }

    private func makeFolder(_ io: BlockingIO) throws(SystemError) {
        var parent = ""
        for path in [folder.prefix(upTo: folder.lastIndex(of: "/") ?? folder.endIndex), folder[...]].map(String.init) {
            if parent.isEmpty { parent = String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.endIndex)) }
            if try io.makeDirectory(path) { try io.synchronizeDirectory(parent) }
            parent = path
        }
    }
}
