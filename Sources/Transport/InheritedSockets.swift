internal import Foundation
internal import Glibc
package import SystemIO

/// Listening sockets that the service manager has opened (sd_listen_fds(3)).
///
/// They stay open while the process is restarted, so that no connection is refused meanwhile.
package struct InheritedSockets: Sendable {
    /// By `FileDescriptorName` of the socket unit.
    private let descriptors: [String: Int32]

    /// The first descriptor (`SD_LISTEN_FDS_START`).
    private static let first: Int32 = 3

    /// None.
    package init() { descriptors = [:] }

    /// Those that the environment describes.
    ///
    /// Without names (`LISTEN_FDNAMES`) the first socket is `gateway`, and the second `object`.
    ///
    /// - Parameters:
    ///   - environment: Of this process.
    ///   - process: The id of this process: descriptors for another one are not looked at.
    package init(environment: [String: String], process: Int32 = getpid()) {
        var descriptors: [String: Int32] = [:]
        let count = environment["LISTEN_FDS"].flatMap { Int32($0) } ?? 0
        if environment["LISTEN_PID"] == String(process), count > 0, count < 1024 {
            let names = (environment["LISTEN_FDNAMES"] ?? "").split(separator: ":", omittingEmptySubsequences: false)
            let standard = ["gateway", "object"]
            for index in 0..<Int(count) {
                let name = names.count == Int(count) ? String(names[index]) : "unknown"
                let known = name == "unknown" && index < standard.count ? standard[index] : name
                if descriptors[known] == nil { descriptors[known] = Self.first + Int32(index) }
            }
        }
        self.descriptors = descriptors
    }

    /// The descriptor of the socket unit with this name.
    package subscript(name: String) -> Int32? { descriptors[name] }

    /// Listens on the socket unit with this name, or without one on an address.
    ///
    /// - Throws: `SystemError` of `socket`, `bind` or `listen`.
    package func listener(
        _ name: String,
        or address: SocketAddress,
        loop: EventLoop
    ) throws(SystemError) -> Listener {
        if let inherited = self[name] { return try Listener(inherited: inherited, loop: loop) }
        return try Listener(address, loop: loop)
    }
}

/// The service manager that started this process (sd_notify(3)).
package enum ServiceManager {
    /// Tells the service manager of a new state, such as `READY=1`, if there is one.
    package static func notify(_ state: String) {
        guard let path = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"], !path.isEmpty else { return }
        send(state, to: path)
    }

    /// - Returns: Whether it was sent; nobody waits for it.
    @discardableResult
    static func send(_ state: String, to path: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        // A name that is in no file system.
        if bytes.first == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { Glibc.close(descriptor) }
        let size = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let text = Array(state.utf8)
        let sent = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { rebound in
                sendto(descriptor, text, text.count, Int32(MSG_NOSIGNAL), rebound, size)
            }
        }
        return sent == text.count
    }
}
