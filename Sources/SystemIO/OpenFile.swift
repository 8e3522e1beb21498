internal import Synchronization

/// The sole owner of an open file descriptor; closes it when the last reference is released.
///
/// Reading, writing and everything else that can block needs a `BlockingIO`.
package final class OpenFile: Sendable {
    /// Valid while this object lives and was not closed by `BlockingIO.close`.
    private let number: Int32
    /// Opened the file, and closes it; `nil` if the descriptor was made elsewhere.
    private let pool: BlockingPool?
    private let isClosed = Atomic<Bool>(false)

    /// Takes ownership of `descriptor`; nothing else may close it.
    package convenience init(owning descriptor: Int32) {
        self.init(owning: descriptor, pool: nil)
    }

    init(owning descriptor: Int32, pool: BlockingPool?) {
        number = descriptor
        self.pool = pool
    }

    package var descriptor: Int32 {
        assert(!isClosed.load(ordering: .relaxed), "a file is not used after it was closed")
        return number
    }

    /// Whether it has to be closed now: at most once.
    func takeForClosing() -> Bool { !isClosed.exchange(true, ordering: .relaxed) }

    deinit {
        guard takeForClosing() else { return }
        guard let pool else {
            _ = LinuxCalls().close(number)
            return
        }
        pool.close(number)
    }
}
