internal import Foundation
internal import SystemIO

/// Syncs directories so that calls that wait at the same time share one sync.
///
/// A call needs a sync that begins after it: an earlier one may not include its change. So while one sync of a directory runs, all
/// further calls wait together for the next one.
///
/// Invariant: `directories`, and the result of each round, are accessed only while `condition` is held.
final class SharedDirectorySyncs: @unchecked Sendable {
    private final class Round {
        var callers = 0
        var result: Result<Void, SystemError>?
    }

    private struct Directory {
        var isRunning = false
        /// The round that begins when the running one ends.
        var next: Round?
    }

    private let condition = NSCondition()
    private var directories: [String: Directory] = [:]

    /// Makes changes of a directory durable that were made before this call.
    func synchronize(_ path: String, _ io: BlockingIO) throws(SystemError) {
        condition.lock()
        defer { condition.unlock() }
        let round = directories[path, default: Directory()].next ?? Round()
        directories[path, default: Directory()].next = round
        round.callers += 1
        while round.result == nil {
            if directories[path]?.isRunning == true {
                condition.wait()
            } else {
                run(round, path, io)
            }
        }
        if case .failure(let error)? = round.result { throw error }
    }

    /// The number of calls that wait for a sync that has not begun.
    func waiting(_ path: String) -> Int {
        condition.lock()
        defer { condition.unlock() }
        return directories[path]?.next?.callers ?? 0
    }

    /// Runs a round for all calls that joined it.
    private func run(_ round: Round, _ path: String, _ io: BlockingIO) {
        directories[path] = Directory(isRunning: true)
        condition.unlock()
        let result: Result<Void, SystemError>
        do throws(SystemError) {
            result = .success(try io.synchronizeDirectory(path))
        } catch {
            result = .failure(error)
        }
        condition.lock()
        round.result = result
        directories[path]?.isRunning = false
        // Remove the entry if no call waits for a sync of this directory.
        if directories[path]?.next == nil { directories[path] = nil }
        condition.broadcast()
    }
}
