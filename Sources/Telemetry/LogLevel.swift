package import Logging
internal import Synchronization

/// The least important level that loggers write; it can change while they are in use.
package final class LogLevel: Sendable {
    private let index: Atomic<Int>

    package init(_ level: Logger.Level) { index = Atomic(Self.index(of: level)) }

    package var current: Logger.Level { Self.all[index.load(ordering: .relaxed)] }

    package func set(_ level: Logger.Level) { index.store(Self.index(of: level), ordering: .relaxed) }

    private static func index(of level: Logger.Level) -> Int { all.firstIndex(of: level) ?? 0 }

    // Asked for each message: the list of the type itself is made anew each time.
    private static let all = Logger.Level.allCases
}
