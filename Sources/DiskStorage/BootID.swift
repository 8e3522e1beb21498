internal import SystemIO

#if canImport(Glibc)
internal import Glibc
#endif

/// Identifies the current boot of this machine.
///
/// Within one boot, written file content persists even if it was not synchronised.
///
/// Killing a process leaves the kernel's page cache intact. A power cut or a reset does not, and the kernel has a new
/// id afterwards.
struct BootID: Sendable, Equatable {
    /// 64 of the 122 random bits of `boot_id` (random(4)).
    let value: UInt64

    static let current = BootID()

    private init() {
        let io = BlockingIO.onCallingThread
        let text = (try? io.read(io.open("/proc/sys/kernel/random/boot_id", O_RDONLY), at: 0, maximum: 64)) ?? []
        let digits = String(decoding: text, as: UTF8.self).filter(\.isHexDigit).prefix(16)
        // A random value differs from every other boot: then only synchronised bytes count, which is always safe.
        value = UInt64(digits, radix: 16) ?? UInt64.random(in: 1...UInt64.max)
    }

    init(value: UInt64) { self.value = value }
}
