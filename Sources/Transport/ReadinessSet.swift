internal import CSystem
internal import Glibc
internal import SystemIO

/// Reports which descriptors became readable or writable: the seam between an event loop and the kernel.
///
/// Edge-triggered: each change is reported once. Used only by the loop's thread, except `wake` and `mute`.
protocol ReadinessSet: AnyObject {
    func add(_ descriptor: Int32, token: UInt64) throws(SystemError)
    func remove(_ descriptor: Int32)
    /// Suspends the events of a descriptor. When they are resumed, its current readiness is reported at once. Can be
    /// called from any thread; does nothing for a descriptor that was removed.
    func mute(_ descriptor: Int32, token: UInt64, _ isMute: Bool)
    /// Waits until a descriptor is ready, `wake` was called, or `milliseconds` have passed (negative: no limit).
    func wait(milliseconds: Int32, _ body: (_ token: UInt64, _ readiness: Readiness) -> Void)
    /// Ends the current `wait`, or the next one; can be called from any thread.
    func wake()
}

struct Readiness: OptionSet {
    let rawValue: UInt8
    static let readable = Readiness(rawValue: 1)
    static let writable = Readiness(rawValue: 2)
    /// The peer will send nothing more, or the connection broke: from now on, reads never block.
    static let hungUp = Readiness(rawValue: 4)
}

/// A `ReadinessSet` that uses epoll and an eventfd to wake it.
///
/// Invariant for `@unchecked`: the descriptors are constant, and only `wait`, which only the loop's thread calls, uses
/// `tokens` and `events`.
final class EpollSet: ReadinessSet, @unchecked Sendable {
    private static let capacity = 256
    private static let wakeToken = UInt64.max

    private let epoll: Int32
    private let wakeDescriptor: Int32
    private let tokens = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
    private let events = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity)

    init() throws(SystemError) {
        epoll = Int32(try SystemError.check("epoll_create1") { SystemResult(csys_epoll_create()) })
        wakeDescriptor = Int32(try SystemError.check("eventfd") { SystemResult(csys_eventfd()) })
        try SystemError.check("epoll_ctl") {
            SystemResult(csys_epoll_add_reader(epoll, wakeDescriptor, Self.wakeToken))
        }
    }

    deinit {
        close(epoll)
        close(wakeDescriptor)
        tokens.deallocate()
        events.deallocate()
    }

    func add(_ descriptor: Int32, token: UInt64) throws(SystemError) {
        try SystemError.check("epoll_ctl") { SystemResult(csys_epoll_add(epoll, descriptor, token)) }
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
