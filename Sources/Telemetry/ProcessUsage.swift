internal import Foundation

/// Resource usage of the process from `/proc/self` (proc(5)); zeros if that does not exist.
package struct ProcessUsage {
    package var cpuSeconds = 0.0
    package var residentBytes: Int64 = 0
    package var openDescriptors = 0

    package static func current() -> ProcessUsage {
        var usage = ProcessUsage()
        if let text = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8), let end = text.lastIndex(of: ")")
        {
            // Fields after the name in parentheses: state is the first; utime and stime are the 12th and 13th.
            let fields = text[text.index(after: end)...].split(separator: " ")
            if fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) {
                usage.cpuSeconds = (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
            }
        }
        if let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) {
            let fields = text.split(separator: " ")
            if fields.count > 1, let pages = Int64(fields[1]) {
                usage.residentBytes = pages * Int64(sysconf(Int32(_SC_PAGESIZE)))
            }
        }
        usage.openDescriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
        return usage
    }
}
