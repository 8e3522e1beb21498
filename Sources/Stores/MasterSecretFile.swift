internal import Bytes
internal import DiskStorage
internal import Digests
internal import Foundation
package import GatewayKit
package import Signing

/// The master secret in the data directory, from which all other secrets are derived; during a rotation, with the
/// previous ones.
///
/// One line per secret, in Base64. The first one is used for everything new, so that a rotation is a single change to
/// one file.
package enum MasterSecretFile {
    /// The secret in `<data directory>/master.secret`, made on the first start.
    ///
    /// The file holds 32 random bytes as base64 and is readable by its owner only. Losing it invalidates all upload
    /// URLs, tokens and links, so it is made durable before anything is derived from it.
    package static func loadOrCreate(in directory: String) throws(StartFailure) -> MasterSecret {
        let path = path(in: directory)
        if let secret = try load(path) { return secret }
        let temporary = try write(Base64.encode(SecureRandom.bytes(newByteCount)), beside: path, owner: nil)
        // A link, not a rename: if two first starts race, the second one uses the secret of the first.
        if link(temporary, path) != 0, errno != EEXIST { throw failure("cannot be created", path) }
        unlink(temporary)
        try withDirectory(directory) { descriptor throws(StartFailure) in
            guard fsync(descriptor) == 0 else { throw failure("cannot be forced to disk", directory) }
        }
        guard let secret = try load(path) else { throw failure("cannot be read", path) }
        return secret
    }

    /// Adds a new secret before those in the file, which stay valid.
    ///
    /// The file always contains either the old or the new content, on stable storage. A running gateway reads it only
    /// at start.
    ///
    /// - Returns: The new content of the file.
    /// - Throws: `StartFailure` if there is no such file, or it already has the maximum number of secrets.
    package static func rotate(in directory: String) throws(StartFailure) -> MasterSecret {
        try change(in: directory) { secret throws(StartFailure) in
            let text = Base64.encode(SecureRandom.bytes(newByteCount)) + "," + secret.text
            guard let rotated = MasterSecret(text: text) else {
                throw StartFailure(
                    "there are \(MasterSecret.maximumCount) secrets already; drop one that is no longer used"
                )
            }
            return rotated
        }
    }

    /// Removes a secret that is still accepted but no longer used for anything new.
    ///
    /// - Parameters:
    ///   - id: Its `MasterSecret.id`.
    ///   - directory: The data directory.
    /// - Returns: The new content of the file.
    /// - Throws: `StartFailure` if no secret has this id, or the first one has it.
    package static func drop(_ id: String, in directory: String) throws(StartFailure) -> MasterSecret {
        try change(in: directory) { secret throws(StartFailure) in
            guard id != secret.id else {
                throw StartFailure("\(id) is the secret for everything new; rotate it before you drop it")
            }
            let left = secret.each.filter { $0.id != id }
            guard left.count < secret.each.count, let dropped = MasterSecret(text: lines(left)) else {
                throw StartFailure("there is no secret \(id); `sluice secret list` shows the existing ones")
            }
            return dropped
        }
    }

    package static func path(in directory: String) -> String { directory + "/master.secret" }

    /// The secret in `<data directory>/master.secret`; `nil` if there is no such file.
    package static func existing(in directory: String) throws(StartFailure) -> MasterSecret? {
        try load(path(in: directory))
    }

    private static let newByteCount = 32

    private static func lines(_ secrets: [MasterSecret]) -> String { secrets.map(\.text).joined(separator: "\n") }

    private static func load(_ path: String) throws(StartFailure) -> MasterSecret? {
        do throws(PrivatePath.Failure) {
            _ = try PrivatePath.tighten(path, rootMayBorrow: true)
        } catch {
            throw StartFailure("\(error)")
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            if access(path, F_OK) == 0 { throw failure("cannot be read", path) }
            return nil
        }
        guard let secret = MasterSecret(text: String(decoding: data, as: UTF8.self)) else {
            throw StartFailure(
                "\(path) must hold at least 32 bytes as base64, during a rotation one line per secret; restore it from a backup"
            )
        }
        return secret
    }

    /// Replaces the content of the file with what `body` returns; changes are serialised.
    private static func change(
        in directory: String,
        _ body: (MasterSecret) throws(StartFailure) -> MasterSecret
    ) throws(StartFailure) -> MasterSecret {
        let path = path(in: directory)
        return try withDirectory(directory) { descriptor throws(StartFailure) in
            // The lock ends with the descriptor. It is not the lock of the data directory, which a running gateway
            // holds.
            guard flock(descriptor, LOCK_EX) == 0 else { throw failure("cannot be locked", directory) }
            var before = stat()
            guard stat(path, &before) == 0, let secret = try load(path) else {
                throw StartFailure("there is no \(path) yet; the first start of the gateway creates it")
            }
            let changed = try body(secret)
            // Another user, such as root, may call this, and the gateway must still be able to read the file.
            let owner = before.st_uid == geteuid() ? nil : (before.st_uid, before.st_gid)
            let temporary = try write(lines(changed.each), beside: path, owner: owner)
            guard rename(temporary, path) == 0 else {
                let problem = failure("cannot be replaced", path)
                unlink(temporary)
                throw problem
            }
            guard fsync(descriptor) == 0 else { throw failure("cannot be forced to disk", directory) }
            return changed
        }
    }

    /// Writes `<path>.new`, durable and readable by its owner only, and returns its path.
    private static func write(
        _ text: String,
        beside path: String,
        owner: (uid_t, gid_t)?
    ) throws(StartFailure) -> String {
        let temporary = path + ".new"
        // A leftover from a crash.
        unlink(temporary)
        let descriptor = open(temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("cannot be created", path) }
        defer { close(descriptor) }
        let bytes = Array((text + "\n").utf8)
        let isWritten = bytes.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) } == bytes.count
        guard isWritten, owner.map({ fchown(descriptor, $0.0, $0.1) == 0 }) ?? true, fsync(descriptor) == 0 else {
            let problem = failure("cannot be written", path)
            unlink(temporary)
            throw problem
        }
        return temporary
    }

    private static func withDirectory<Result>(
        _ directory: String,
        _ body: (Int32) throws(StartFailure) -> Result
    ) throws(StartFailure) -> Result {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot be opened", directory) }
        defer { close(descriptor) }
        return try body(descriptor)
    }

    private static func failure(_ what: String, _ path: String) -> StartFailure {
        StartFailure("\(path) \(what): \(String(cString: strerror(errno)))")
    }
}
