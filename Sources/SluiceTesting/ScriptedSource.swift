package import Bytes
internal import Synchronization
package import SystemIO

/// A source that follows a script.
package final class ScriptedSource: ByteSource, Sendable {
    package enum Step: Sendable {
        case bytes([UInt8])
        case fail(SourceFailure)
        /// Delivers nothing until the source is interrupted, or the test calls `proceed`.
        case stall
    }

    private struct Contents {
        var steps: [Step]
        var remaining: Int64?
        var interruption: SourceFailure?
        var isReleased = false
        /// The waiting pull.
        var puller: CheckedContinuation<Void, Never>?
        /// Tests that wait until a pull stalls.
        var watchers: [CheckedContinuation<Void, Never>] = []
        var hasStalled = false
        var interruptions = 0

        /// The result of the next pull; `nil` if it has to wait.
        mutating func next(maximum: Int) -> Result<[UInt8]?, SourceFailure>? {
            if let interruption { return .failure(interruption) }
            while let step = steps.first {
                switch step {
                case .bytes(let bytes):
                    guard !bytes.isEmpty else {
                        steps.removeFirst()
                        continue
                    }
                    let piece = Array(bytes.prefix(maximum))
                    steps[0] = .bytes(Array(bytes.dropFirst(maximum)))
                    if let left = remaining { remaining = left - Int64(piece.count) }
                    return .success(piece)
                case .fail(let failure):
                    return .failure(failure)
                case .stall:
                    guard isReleased else { return nil }
                    steps.removeFirst()
                    isReleased = false
                }
            }
            return .success(nil)
        }
    }

    private let contents: Mutex<Contents>
    package let supportsTransfer: Bool

    /// - Parameters:
    ///   - steps: The script; the source ends successfully after the last step.
    ///   - isLengthKnown: Whether `remaining` returns the number of bytes in the steps.
    ///   - supportsTransfer: Whether the bytes can be moved with `transfer`.
    package init(_ steps: [Step], isLengthKnown: Bool = false, supportsTransfer: Bool = false) {
        let total = steps.reduce(Int64(0)) { sum, step in
            if case .bytes(let bytes) = step { sum + Int64(bytes.count) } else { sum }
        }
        contents = Mutex(Contents(steps: steps, remaining: isLengthKnown ? total : nil))
        self.supportsTransfer = supportsTransfer
    }

    package var remaining: Int64? { contents.withLock { $0.remaining } }

    package var interrupter: SourceInterrupter {
        SourceInterrupter { [self] failure in
            let puller = contents.withLock { contents in
                contents.interruptions += 1
                if contents.interruption == nil { contents.interruption = failure }
                defer { contents.puller = nil }
                return contents.puller
            }
            puller?.resume()
        }
    }

    package func arrives(_ count: Int) async -> Bool {
        contents.withLock { contents in
            var bytes = 0
            for step in contents.steps {
                guard case .bytes(let piece) = step else { break }
                bytes += piece.count
            }
            return bytes >= count
        }
    }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        while true {
            let found: Result<[UInt8]?, SourceFailure>? = contents.withLock { $0.next(maximum: maximum) }
            if let found { return try found.get() }
            await stall()
        }
    }

    package func transfer(
        to file: OpenFile,
        at offset: Int64,
        limit: Int64,
        on pool: BlockingPool
    ) async -> TransferOutcome {
        var moved: Int64 = 0
        while moved < limit {
            do throws(SourceFailure) {
                guard let piece = try await next(maximum: Int(min(limit - moved, 65536))) else {
                    return TransferOutcome(moved: moved, end: .endOfSource)
                }
                let position = offset + moved
                let (count, failure) = await pool.run { io in io.write(piece, to: file, at: position) }
                moved += Int64(count)
                if let failure { return TransferOutcome(moved: moved, end: .fileFailed(errno: failure.errno)) }
            } catch {
                return TransferOutcome(moved: moved, end: .sourceFailed(error))
            }
        }
        return TransferOutcome(moved: moved, end: .limitReached)
    }

    // MARK: For the test

    /// Waits until a pull stalls.
    package func waitUntilStalled() async {
        await withCheckedContinuation { watcher in
            let isStalled = contents.withLock { contents in
                if !contents.hasStalled { contents.watchers.append(watcher) }
                return contents.hasStalled
            }
            if isStalled { watcher.resume() }
        }
    }

    /// Ends the stall.
    package func proceed() {
        let puller = contents.withLock { contents in
            contents.isReleased = true
            defer { contents.puller = nil }
            return contents.puller
        }
        puller?.resume()
    }

    /// Number of interruptions so far.
    package var interruptions: Int { contents.withLock { $0.interruptions } }

    /// Bytes not pulled yet.
    package var unread: Int {
        contents.withLock { contents in
            contents.steps.reduce(0) { sum, step in
                if case .bytes(let bytes) = step { sum + bytes.count } else { sum }
            }
        }
    }

    /// A test that throws cancels what it has begun and waits for it: then the source ends, so that the test fails and
    /// does not hang.
    private func stall() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { puller in
                let (mustWait, watchers) = contents.withLock { contents in
                    let mustWait = contents.interruption == nil && !contents.isReleased
                    if mustWait { contents.puller = puller }
                    contents.hasStalled = true
                    defer { contents.watchers = [] }
                    return (mustWait, contents.watchers)
                }
                for watcher in watchers { watcher.resume() }
                if !mustWait { puller.resume() }
            }
        } onCancel: {
            let puller = contents.withLock { contents in
                if contents.interruption == nil { contents.interruption = .disconnected }
                defer { contents.puller = nil }
                return contents.puller
            }
            puller?.resume()
        }
    }
}
