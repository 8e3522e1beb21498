internal import SystemIO

#if canImport(Glibc)
internal import Glibc
#endif

/// How many bytes of a blob are on stable storage; stored in an extended attribute of the file.
///
/// The size of a file does not show this: it can reach the file system's journal before the bytes reach the disk, and
/// after a power cut zeros take their place. The attribute is written only after them
/// (`BlockingIO.synchronize(_:through:beyond:in:)`), so after a power cut its length counts; see
/// docs/decisions/0027-durable-lengths.md.
struct DurableRecord: Equatable {
    /// Number of leading bytes that survive a power cut.
    var length: Int64
    /// During this boot all bytes of the file count; `nil` if they never do, because writing them has failed.
    var boot: BootID?

    /// Number of bytes that count in a file of length `size`.
    func length(of size: Int64, in boot: BootID) -> Int64 {
        self.boot == boot ? size : min(size, length)
    }

    /// 16 hexadecimal digits of the length, a space, and 16 of the boot.
    ///
    /// The size is constant, so that a record can be replaced on a full disk.
    var text: [UInt8] {
        Array((Self.digits(UInt64(max(0, length))) + " " + Self.digits(boot?.value ?? 0)).utf8)
    }

    init(length: Int64, boot: BootID?) {
        self.length = length
        self.boot = boot
    }

    init?(_ text: [UInt8]) {
        let fields = String(decoding: text, as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count == 2, fields.allSatisfy({ $0.utf8.count == 16 }),
            let length = UInt64(fields[0], radix: 16).flatMap({ Int64(exactly: $0) }),
            let boot = UInt64(fields[1], radix: 16)
        else { return nil }
        self.init(length: length, boot: boot == 0 ? nil : BootID(value: boot))
    }

    private static func digits(_ value: UInt64) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: 16 - text.utf8.count) + text
    }
}

extension BlockingIO {
    private static let durableRecord = "user.sluice.durable"

    /// The record; `nil` if the file has none, like blobs of version 0.1 and files in memory.
    func durableRecord(of file: OpenFile) throws(SystemError) -> DurableRecord? {
        let text: [UInt8]
        do throws(SystemError) {
            text = try attribute(Self.durableRecord, of: file, maximum: 64)
        } catch  where error.errno == ENODATA || error.errno == EOPNOTSUPP {
            return nil
        }
        guard let record = DurableRecord(text) else {
            // Not written by Sluice: nothing is known to be durable.
            return DurableRecord(length: 0, boot: nil)
        }
        return record
    }

    /// Replaces the record; durable with the next `synchronizeAll`.
    func setDurableRecord(_ record: DurableRecord, of file: OpenFile) throws(SystemError) {
        do throws(SystemError) {
            try setAttribute(Self.durableRecord, of: file, to: record.text)
        } catch  where error.errno == EOPNOTSUPP {
            // Start-up ensures that only file systems that lose all files in a power cut get here.
            return
        }
    }

    /// Forces the bytes to stable storage, and then the record of them.
    ///
    /// The record is set after the bytes were sent to the disk. A file system flushes the disk's cache before it
    /// commits metadata such as the record. Therefore no power cut leaves the record without the bytes, and one commit
    /// is enough for both.
    ///
    /// - Parameters:
    ///   - file: Open for writing.
    ///   - length: Bytes of the file; it must not be truncated during the call.
    ///   - known: Number of leading bytes that are already durable.
    ///   - boot: The current boot.
    /// - Throws: If one of the calls failed; then it is unknown which bytes after `known` are on the disk.
    func synchronize(
        _ file: OpenFile,
        through length: Int64,
        beyond known: Int64,
        in boot: BootID
    ) throws(SystemError) {
        try writeOut(file, from: known)
        try setDurableRecord(DurableRecord(length: length, boot: boot), of: file)
        try synchronizeAll(of: file)
    }

    /// Whether files in the file system of this one can have records, or need none because a power cut removes them all.
    func canKeepRecords(beside file: OpenFile) throws(SystemError) -> Bool {
        if (try? isInMemory(file)) == true { return true }
        do throws(SystemError) {
            _ = try attribute(Self.durableRecord, of: file, maximum: 64)
            return true
        } catch  where error.errno == ENODATA {
            return true
        } catch  where error.errno == EOPNOTSUPP {
            return false
        }
    }
}
