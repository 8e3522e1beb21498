internal import Bytes
internal import DiskStorage
internal import Digests
internal import Foundation
internal import Signing

/// The secret from which all others are derived, in the data directory; while it is rotated, with those of before.
///
/// A line for each, as base64, the one that makes everything new first, so that a rotation is one change of one file.
enum MasterSecretFile {
    /// The secret in `<data directory>/master.secret`, made on the first start.
    ///
    /// The file holds 32 random bytes as base64 and is readable by its owner only. Whoever loses it invalidates all
    /// upload URLs, tokens and links; so it is made durable before anything is derived from it.
    static func loadOrCreate(in directory: String) throws(StartFailure) -> MasterSecret {
        let path = path(in: directory)
        if let secret = try load(path) { return secret }
        let temporary = try write(Base64.encode(SecureRandom.bytes(newByteCount)), beside: path, owner: nil)
        // A link, not a rename: of two first starts at once, the second takes the secret of the first.
        if link(temporary, path) != 0, errno != EEXIST { throw failure("can not be made", path) }
        unlink(temporary)
        try withDirectory(directory) { descriptor throws(StartFailure) in
            guard fsync(descriptor) == 0 else { throw failure("can not be forced to disk", directory) }
        }
        guard let secret = try load(path) else { throw failure("can not be read", path) }
        return secret
    }

    /// Puts a new secret before those of the file, which go on being accepted.
    ///
    /// At every moment the file has either what it had, or the new secret on stable storage; a running gateway has read it before.
    ///
    /// - Returns: What the file has now.
    /// - Throws: `StartFailure` without such a file, and with as many secrets as there may be.
    static func rotate(in directory: String) throws(StartFailure) -> MasterSecret {
        try change(in: directory) { secret throws(StartFailure) in
            let text = Base64.encode(SecureRandom.bytes(newByteCount)) + "," + secret.text
            guard let rotated = MasterSecret(text: text) else {
                throw StartFailure(
                    "there are \(MasterSecret.maximumCount) secrets already; drop one that nothing uses any more"
                )
            }
            return rotated
        }
    }

    /// Removes a secret that is accepted and makes nothing new.
    ///
    /// - Parameters:
    ///   - id: Its `MasterSecret.id`.
    ///   - directory: The data directory.
    /// - Returns: What the file has now.
    /// - Throws: `StartFailure` if there is none with this id, or it is the first.
    static func drop(_ id: String, in directory: String) throws(StartFailure) -> MasterSecret {
        try change(in: directory) { secret throws(StartFailure) in
            guard id != secret.id else {
                throw StartFailure("\(id) is the secret that makes everything new; rotate it before you drop it")
            }
            let left = secret.each.filter { $0.id != id }
            guard left.count < secret.each.count, let dropped = MasterSecret(text: lines(left)) else {
                throw StartFailure("there is no secret \(id); `sluice secret list` shows those that there are")
            }
            return dropped
        }
    }

    static func path(in directory: String) -> String { directory + "/master.secret" }

    /// The secret in `<data directory>/master.secret`; `nil` if there is no such file.
    static func existing(in directory: String) throws(StartFailure) -> MasterSecret? { try load(path(in: directory)) }

    private static let newByteCount = 32

    private static func lines(_ secrets: [MasterSecret]) -> String { secrets.map(\.text).joined(separator: "\n") }

    private static func load(_ path: String) throws(StartFailure) -> MasterSecret? {
        do throws(PrivatePath.Failure) {
            _ = try PrivatePath.tighten(path)
        } catch {
            throw StartFailure("\(error)")
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            if access(path, F_OK) == 0 { throw failure("can not be read", path) }
            return nil
        }
        guard let secret = MasterSecret(text: String(decoding: data, as: UTF8.self)) else {
            throw StartFailure(
                "\(path) must hold at least 32 bytes as base64, and while they are rotated a line for each; restore it from a backup"
            )
        }
        return secret
    }

    /// Replaces the file by one with what `body` makes of it, one change after the other.
    private static func change(
        in directory: String,
        _ body: (MasterSecret) throws(StartFailure) -> MasterSecret
    ) throws(StartFailure) -> MasterSecret {
        let path = path(in: directory)
        return try withDirectory(directory) { descriptor throws(StartFailure) in
            // Ends with the descriptor. It is not the lock of the data directory, which a running gateway holds.
            guard flock(descriptor, LOCK_EX) == 0 else { throw failure("can not be locked", directory) }
            var before = stat()
            guard stat(path, &before) == 0, let secret = try load(path) else {
                throw StartFailure("there is no \(path) yet; the first start of the gateway makes it")
            }
            let changed = try body(secret)
            // Somebody else than the gateway may call this, such as root, and the gateway must go on reading the file.
            let owner = before.st_uid == geteuid() ? nil : (before.st_uid, before.st_gid)
            let temporary = try write(lines(changed.each), beside: path, owner: owner)
            guard rename(temporary, path) == 0 else {
                let problem = failure("can not be replaced", path)
                unlink(temporary)
                throw problem
            }
            guard fsync(descriptor) == 0 else { throw failure("can not be forced to disk", directory) }
            return changed
        }
    }

    /// Makes `<path>.new` with a text, durable and readable by its owner only, and returns its path.
    private static func write(
        _ text: String,
        beside path: String,
        owner: (uid_t, gid_t)?
    ) throws(StartFailure) -> String {
        let temporary = path + ".new"
        // Left over where somebody died.
        unlink(temporary)
        let descriptor = open(temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("can not be made", path) }
        defer { close(descriptor) }
        let bytes = Array((text + "\n").utf8)
        let isWritten = bytes.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) } == bytes.count
        guard isWritten, owner.map({ fchown(descriptor, $0.0, $0.1) == 0 }) ?? true, fsync(descriptor) == 0 else {
            let problem = failure("can not be written", path)
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
        guard descriptor >= 0 else { throw failure("can not be opened", directory) }
        defer { close(descriptor) }
        return try body(descriptor)
    }

    private static func failure(_ what: String, _ path: String) -> StartFailure {
        StartFailure("\(path) \(what): \(String(cString: strerror(errno)))")
    }
}
