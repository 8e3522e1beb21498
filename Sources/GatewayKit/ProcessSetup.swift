internal import CSystem
internal import Foundation
internal import Transport

/// Process-wide setup.
package enum ProcessSetup {
    /// Ignores SIGPIPE and signals that have no meaning here, limits the number of heaps, and raises the limit on open files.
    package static func prepare() {
        for number in [SIGPIPE, SIGUSR1, SIGUSR2] { signal(number, SIG_IGN) }
        OpenSSL.keepUntilTheEnd()
        // By default each thread that waits for disk or state gets its own heap, with its own unused memory.
        _ = csys_limit_heaps(4)
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
    }

    /// The most connections that leave descriptors for the files of uploads, the state and the log.
    package static var mostConnections: Int { max(1, descriptors / 2, descriptors - descriptorsOfFiles) }

    /// The most descriptors that the process can have.
    package static var descriptors: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        return Int(clamping: limit.rlim_cur)
    }

    private static let descriptorsOfFiles = 256

    /// Ends the process at SIGTERM and SIGINT and ignores the others, until the services handle them.
    ///
    /// As process 1 of a container it would ignore the first two by default, and a start may wait long for a database.
    /// What SIGHUP asks for, reading settings and certificate, is still to come.
    package static func handleSignalsOfTheStart() {
        signal(SIGTERM) { _ in _exit(0) }
        signal(SIGINT) { _ in _exit(130) }
        for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE] { signal(number, SIG_IGN) }
    }

    /// Unmaps the code that was needed for the start, so that resident memory is what the gateway uses.
    ///
    /// Code that is used again is mapped from the page cache, in a few hundred page faults; see
    /// docs/decisions/0064-code-of-the-start.md.
    package static func unmapCodeOfTheStart() { csys_unmap_program_pages() }
}
