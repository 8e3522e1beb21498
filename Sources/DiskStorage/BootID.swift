internal import Bytes

#if canImport(Glibc)
internal import Glibc
#endif

/// The boot of this machine: as long as it is the same, what was written to files is there although it was not synchronised.
///
/// A process that is killed leaves the kernel's page cache as it is. A power cut or a reset does not, and the kernel has another
/// id afterwards.
struct BootID: Sendable, Equatable {
    /// 64 of the 122 random bits of `boot_id` (random(4)).
    let value: UInt64

    static let current = BootID()

    private init() {
        let text = (try? OpenFile.open("/proc/sys/kernel/random/boot_id", O_RDONLY).read(at: 0, maximum: 64)) ?? []
        let digits = String(decoding: text, as: UTF8.self).filter(\.isHexDigit).prefix(16)
        // One that no other start has: then only what was synchronised counts, which is always right.
        value = UInt64(digits, radix: 16) ?? UInt64.random(in: 1...UInt64.max)
    }

    init(value: UInt64) { self.value = value }
}
