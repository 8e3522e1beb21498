internal import Bytes
internal import HTTPWire

/// Content of an answer that comes from elsewhere while it is sent.
///
/// Unchecked, because it has one user at a time: the handler that makes it, then the task that sends the answer.
final class RemoteContent: @unchecked Sendable {
    private let source: any ByteSource

    init(_ source: any ByteSource) { self.source = source }

    func send(to sink: any ByteSink) async throws -> HTTPFields {
        // Who waits for a slow store would not notice that nobody waits for the answer.
        let interrupter = source.interrupter
        sink.whenGone { interrupter.interrupt(as: .disconnected) }
        while let piece = try await source.next(maximum: 256 << 10) { try await sink.write(piece) }
        return HTTPFields()
    }
}
