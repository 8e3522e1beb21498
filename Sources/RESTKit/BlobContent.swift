internal import Bytes
package import HTTPWire
package import UploadModel

extension StoredBlob {
    /// A range of the blob as response content.
    ///
    /// - Parameters:
    ///   - range: Within the blob.
    ///   - isHead: Only the head of the response is sent.
    /// - Returns: Content of the range's length. Storage is asked before the response head is sent, so that an
    ///   unavailable store causes an error response and not a truncated one.
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    package func responseContent(_ range: Range<Int64>, isHead: Bool) async throws(UploadError) -> Response.Content {
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

/// Response content that is fetched from a remote store while it is sent.
///
/// Unchecked, because it has one user at a time: first the handler that creates it, then the task that sends the
/// response.
private final class RemoteContent: @unchecked Sendable {
    private let source: any ByteSource

    init(_ source: any ByteSource) { self.source = source }

    func send(to sink: any ByteSink) async throws -> HTTPFields {
        // Nothing is written while the store is slow, so a closed connection would go unnoticed.
        let interrupter = source.interrupter
        sink.whenGone { interrupter.interrupt(as: .disconnected) }
        while let piece = try await source.next(maximum: 256 << 10) { try await sink.write(piece) }
        return HTTPFields()
    }
}
