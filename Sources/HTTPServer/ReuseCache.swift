internal import Synchronization

/// Keeps objects for reuse: as many as were in use at once, at most `capacity`.
final class ReuseCache<Element: AnyObject & Sendable>: Sendable {
    private let capacity: Int
    private let idle = Mutex<[Element]>([])

    init(capacity: Int) { self.capacity = capacity }

    func take() -> Element? {
        idle.withLock { $0.popLast() }
    }

    func put(_ element: Element) {
        idle.withLock { if $0.count < capacity { $0.append(element) } }
    }
}
