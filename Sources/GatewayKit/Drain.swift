internal import Synchronization

/// Whether this process is about to shut down: it still serves, but load balancers must send new clients to other nodes.
package final class Drain: Sendable {
    private let hasBegun = Atomic<Bool>(false)

    package init() {}

    package var isUnderWay: Bool { hasBegun.load(ordering: .relaxed) }

    package func begin() { hasBegun.store(true, ordering: .relaxed) }
}
