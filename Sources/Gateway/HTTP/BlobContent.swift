internal import Bytes
internal import HTTPWire
internal import UploadCore

extension StoredBlob {
    /// Some of its bytes as the content of an answer.
    ///
    /// - Parameters:
    ///   - range: Within the blob.
    ///   - isHead: Of the answer only the head is sent.
    /// - Returns: Content of as many bytes; asked for before the head of the answer is sent, so that a store that is away becomes
    ///   an error and no broken answer.
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    func responseContent(_ range: Range<Int64>, isHead: Bool) async throws(UploadError) -> Response.Content {
        let length = range.upperBound - range.lowerBound
        switch content {
        case .file(let file):
            return .file(FileRegion(file: file, offset: range.lowerBound, length: length))
        case .remote(let remote):
            if isHead || length == 0 { return .stream(length: length) { _ in HTTPFields() } }
            let source = RemoteContent(try await remote.bytes(range))
            return .stream(length: length) { try await source.send(to: $0) }
        }
    }
}

/// Content of an answer that comes from elsewhere while it is sent.
///
/// Unchecked, because it has one user at a time: the handler that makes it, then the task that sends the answer.
private final class RemoteContent: @unchecked Sendable {
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
