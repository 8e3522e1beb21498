internal import Bytes
internal import CSystem

#if canImport(Glibc)
internal import Glibc
#endif

/// How many bytes of a blob are on stable storage; kept with the file, as an extended attribute.
///
/// The size of a file does not tell that: it may get into the file system's journal before the bytes do, and after a power cut
/// there are zeros in their place. The attribute gets there only after them (`OpenFile.synchronize(through:)`), so after a power
/// cut its length counts; see docs/decisions/0027-durable-lengths.md.
struct DurableRecord: Equatable {
    /// Bytes from the beginning that survive a power cut.
    var length: Int64
    /// While this boot lasts, all bytes of the file count; `nil` if they do not even then, because writing them has failed.
    var boot: BootID?

    /// Bytes that count of a file that has `size`.
    func length(of size: Int64, in boot: BootID) -> Int64 {
        self.boot == boot ? size : min(size, length)
    }

    /// 16 hexadecimal digits of the length, a space, and 16 of the boot: always as long, so that one takes the place of another
    /// where there is no room on the disk.
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

extension OpenFile {
    private static let attribute = "user.sluice.durable"

    /// The record; `nil` if the file has none, as blobs of version 0.1 and files in memory.
    func durableRecord() throws(SystemCallError) -> DurableRecord? {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count: Int64
        do throws(SystemCallError) {
            count = try SystemCallError.check("fgetxattr") {
                bytes.withUnsafeMutableBytes {
                    csys_get_attribute(descriptor, Self.attribute, $0.baseAddress, $0.count)
                }
            }
        } catch  where error.number == ENODATA || error.number == EOPNOTSUPP {
            return nil
        }
        guard let record = DurableRecord(Array(bytes.prefix(Int(count)))) else {
            // Not written by us: nothing is known.
            return DurableRecord(length: 0, boot: nil)
        }
        return record
    }

    /// Replaces the record; durable with the next `synchronizeAll`.
    func setDurableRecord(_ record: DurableRecord) throws(SystemCallError) {
        let text = record.text
        do throws(SystemCallError) {
            _ = try SystemCallError.check("fsetxattr") {
                text.withUnsafeBytes { csys_set_attribute(descriptor, Self.attribute, $0.baseAddress, $0.count) }
            }
        } catch  where error.number == EOPNOTSUPP {
            // A start checks that only file systems that lose all their files by a power cut do this.
            return
        }
    }

    /// Forces the bytes to stable storage, and then the record that they are there.
    ///
    /// The record is set when the bytes have left memory for the disk, and a file system flushes the disk's cache before it
    /// commits the change of metadata that the record is. So no power cut leaves the record without the bytes, and one commit is
    /// enough for both.
    ///
    /// - Parameters:
    ///   - length: Bytes of the file; nobody cuts them off meanwhile.
    ///   - known: Bytes from the beginning that are durable already.
    ///   - boot: The boot that lasts.
    /// - Throws: When one of the calls failed; then nobody knows which bytes behind `known` are on the disk.
    func synchronize(through length: Int64, beyond known: Int64, in boot: BootID) throws(SystemCallError) {
        _ = try SystemCallError.check("sync_file_range") { csys_write_out(descriptor, known) }
        try setDurableRecord(DurableRecord(length: length, boot: boot))
        try synchronizeAll()
    }

    /// Whether records can be kept with files beside this one, or need not be, because all are gone after a power cut.
    func canKeepRecords() throws(SystemCallError) -> Bool {
        if csys_is_in_memory(descriptor) == 1 { return true }
        do throws(SystemCallError) {
            _ = try SystemCallError.check("fgetxattr") { csys_get_attribute(descriptor, Self.attribute, nil, 0) }
            return true
        } catch  where error.number == ENODATA {
            return true
        } catch  where error.number == EOPNOTSUPP {
            return false
        }
    }
}
