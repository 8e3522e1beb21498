internal import Foundation

/// Resource usage of the process from `/proc/self` (proc(5)); zero if that does not exist.
enum ProcessUsage {
    /// User and system time.
    static var cpuSeconds: Double {
        guard let text = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        else { return 0 }
        // Fields after the name in parentheses: state is the first; utime and stime are the 12th and 13th.
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    static var residentBytes: Int64 {
        guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) else { return 0 }
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int64(fields[1]) else { return 0 }
        return pages * Int64(sysconf(Int32(_SC_PAGESIZE)))
    }

    /// Of the file system with this path, in bytes (statvfs(3)); `free` is what a process without privileges can use.
    static func space(of path: String) -> (free: Int64, size: Int64) {
        var found = statvfs()
        guard statvfs(path, &found) == 0 else { return (0, 0) }
        return (
            Int64(clamping: found.f_bavail) * Int64(found.f_frsize),
            Int64(clamping: found.f_blocks) * Int64(found.f_frsize)
        )
    }

    static var openDescriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }
}
