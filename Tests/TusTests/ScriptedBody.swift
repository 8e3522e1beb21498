import Bytes
import HTTPWire
import Synchronization

/// A request body with a scripted content and end; it counts how often it is pulled.
final class ScriptedBody: RequestBody {
    enum Ending: Sendable {
        case wellFormed
        case failure(SourceFailure)
        /// Waits until the gate's interrupter is called.
        case stall(Gate)
    }

    private var pieces: [[UInt8]]
    private let ending: Ending
    private let announced: Int64?
    private var delivered: Int64 = 0
    private(set) var pulls = 0
    private let gate: Gate

    private let announcedTrailers: HTTPFields

    /// Empty before the end, as on a connection.
    var trailers: HTTPFields { pieces.isEmpty ? announcedTrailers : HTTPFields() }

    /// - Parameters:
    ///   - pieces: The results of `next`, in order.
    ///   - announced: Content-Length; `nil` for a chunked body.
    ///   - ending: What follows the pieces.
    ///   - trailers: Fields after a chunked body.
    init(
        _ pieces: [[UInt8]] = [],
        announced: Int64?,
        ending: Ending = .wellFormed,
        trailers: HTTPFields = HTTPFields()
    ) {
        self.pieces = pieces
        announcedTrailers = trailers
        self.announced = announced
        self.ending = ending
        if case .stall(let gate) = ending { self.gate = gate } else { gate = Gate() }
    }

    var remaining: Int64? { announced.map { $0 - delivered } }

    var interrupter: SourceInterrupter { gate.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        pulls += 1
        if let failure = gate.failure { throw failure }
        if !pieces.isEmpty {
            let piece = Array(pieces[0].prefix(maximum))
            if piece.count == pieces[0].count {
                pieces.removeFirst()
            } else {
                pieces[0].removeFirst(piece.count)
            }
            delivered += Int64(piece.count)
            return piece
        }
        switch ending {
        case .wellFormed: return nil
        case .failure(let failure): throw failure
        case .stall(let gate): throw await gate.stall()
        }
    }

    /// The sendable half of a stalling body.
    final class Gate: Sendable {
        private struct Contents {
            var failure: SourceFailure?
            var isStalled = false
            var puller: CheckedContinuation<SourceFailure, Never>?
            var watchers: [CheckedContinuation<Void, Never>] = []
        }

        private let contents = Mutex(Contents())

        var failure: SourceFailure? { contents.withLock { $0.failure } }

        var interrupter: SourceInterrupter {
            SourceInterrupter { failure in
                let puller = self.contents.withLock { contents in
                    contents.failure = contents.failure ?? failure
                    defer { contents.puller = nil }
                    return contents.puller
                }
                puller?.resume(returning: failure)
            }
        }

        /// Waits for the interrupter.
        func stall() async -> SourceFailure {
            await withCheckedContinuation { continuation in
                let (failure, watchers) = contents.withLock { contents in
                    contents.isStalled = true
                    if contents.failure == nil { contents.puller = continuation }
                    defer { contents.watchers = [] }
                    return (contents.failure, contents.watchers)
                }
                for watcher in watchers { watcher.resume() }
                if let failure { continuation.resume(returning: failure) }
            }
        }

        /// Waits until a reader waits for more of the body.
        func waitUntilStalled() async {
            await withCheckedContinuation { continuation in
                let isStalled = contents.withLock { contents in
                    if !contents.isStalled { contents.watchers.append(continuation) }
                    return contents.isStalled
                }
                if isStalled { continuation.resume() }
            }
        }
    }
}
