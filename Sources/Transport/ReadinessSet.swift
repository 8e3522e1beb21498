internal import CSystem
internal import Glibc

/// Tells which descriptors have become readable or writable: the seam between an event loop and the kernel.
///
/// Edge-triggered: a change is told once. Used by the loop's thread only, but for `wake` and `mute`.
protocol ReadinessSet: AnyObject {
    func add(_ descriptor: Int32, token: UInt64) throws(SystemError)
    func remove(_ descriptor: Int32)
    /// Tells nothing of a descriptor for a while; when that is over, what it is ready for is told at once. From any
    /// thread; does nothing for a descriptor that was removed.
    func mute(_ descriptor: Int32, token: UInt64, _ isMute: Bool)
    /// Waits until something is ready, `wake` was called, or `milliseconds` are over (negative: no limit).
    func wait(milliseconds: Int32, _ body: (_ token: UInt64, _ readiness: Readiness) -> Void)
    /// Ends a `wait`, the present or the next one, from any thread.
    func wake()
}

struct Readiness: OptionSet {
    let rawValue: UInt8
    static let readable = Readiness(rawValue: 1)
    static let writable = Readiness(rawValue: 2)
    /// The peer sends nothing more, or the connection broke: reading never blocks from now on.
    static let hungUp = Readiness(rawValue: 4)
}

/// `ReadinessSet` by epoll, woken through an eventfd.
///
/// Invariant for `@unchecked`: the descriptors are constant, and `tokens` and `events` are used only by `wait`, which
/// only the loop's thread calls.
final class EpollSet: ReadinessSet, @unchecked Sendable {
    private static let capacity = 256
    private static let wakeToken = UInt64.max

    private let epoll: Int32
    private let wakeDescriptor: Int32
    private let tokens = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
    private let events = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity)

    init() throws(SystemError) {
        epoll = try SystemError.check("epoll_create1") { csys_epoll_create() }
        wakeDescriptor = try SystemError.check("eventfd") { csys_eventfd() }
        try SystemError.check("epoll_ctl") { csys_epoll_add_reader(epoll, wakeDescriptor, Self.wakeToken) }
    }

    deinit {
        close(epoll)
        close(wakeDescriptor)
        tokens.deallocate()
        events.deallocate()
    }

    func add(_ descriptor: Int32, token: UInt64) throws(SystemError) {
        try SystemError.check("epoll_ctl") { csys_epoll_add(epoll, descriptor, token) }
    }

    func remove(_ descriptor: Int32) {
        _ = csys_epoll_remove(epoll, descriptor)
    }

    func mute(_ descriptor: Int32, token: UInt64, _ isMute: Bool) {
        _ = csys_epoll_mute(epoll, descriptor, token, isMute ? 1 : 0)
    }

    func wait(milliseconds: Int32, _ body: (UInt64, Readiness) -> Void) {
        let count = csys_epoll_wait(epoll, tokens, events, Int32(Self.capacity), milliseconds)
        guard count > 0 else { return }
        for index in 0..<Int(count) {
            if tokens[index] == Self.wakeToken {
                var value: UInt64 = 0
                _ = read(wakeDescriptor, &value, 8)
                continue
            }
            let event = events[index]
            var readiness: Readiness = []
            if event & (csys_epollin | csys_epollrdhup | csys_epollhup | csys_epollerr) != 0 {
                readiness.insert(.readable)
            }
            if event & (csys_epollout | csys_epollhup | csys_epollerr) != 0 { readiness.insert(.writable) }
            if event & (csys_epollrdhup | csys_epollhup | csys_epollerr) != 0 { readiness.insert(.hungUp) }
            body(tokens[index], readiness)
        }
    }

    func wake() {
        var value: UInt64 = 1
        _ = write(wakeDescriptor, &value, 8)
    }
}
