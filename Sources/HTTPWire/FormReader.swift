package import Bytes

/// Pulls the parts of a form out of a request's content, one after the other.
///
/// Like a source, it belongs to the task that pulls it.
package final class FormReader {
    package let body: any RequestBody
    private var parser: MultipartParser
    private var failure: SourceFailure?
    /// Whether the data of a part are being read.
    private var isInPart = false

    package init(_ body: any RequestBody, boundary: MultipartBoundary) {
        self.body = body
        parser = MultipartParser(boundary: boundary)
    }

    /// Returns the head of the next part; skips unread data of the previous part.
    ///
    /// - Returns: `nil` after the last part.
    /// - Throws: Why the content ended before the last boundary; every later call throws the same.
    package func nextPart() async throws(SourceFailure) -> HTTPFields? {
        while isInPart { _ = try await nextData(maximum: Self.pieceSize) }
        switch try await step(maximum: Self.pieceSize) {
        case .part(let fields):
            isInPart = true
            return fields
        // The parser returns data only inside parts.
        case .end, .needMore, .data, .endOfPart:
            await passOverEpilogue()
            return nil
        }
    }

    /// Returns data of the current part, or `nil` at its end.
    package func nextData(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard isInPart else { return nil }
        if case .data(let bytes) = try await step(maximum: maximum) { return bytes }
        isInPart = false
        return nil
    }

    /// - Returns: Anything but `.needMore`.
    private func step(maximum: Int) async throws(SourceFailure) -> MultipartParser.Step {
        if let failure { throw failure }
        do throws(SourceFailure) {
            while true {
                let step: MultipartParser.Step
                do throws(MultipartParser.Failure) {
                    step = try parser.next(maximum: maximum)
                } catch {
                    throw .malformed(error.reason + ".")
                }
                guard step == .needMore else { return step }
                guard let piece = try await body.next(maximum: maximum) else {
                    throw .malformed("it ends before its last boundary")
                }
                parser.append(piece)
            }
        } catch {
            failure = error
            throw error
        }
    }

    /// Reads to the end so that the connection can be reused.
    ///
    /// A long epilogue is left unread.
    private func passOverEpilogue() async {
        var rest = Self.pieceSize
        while rest > 0, let piece = try? await body.next(maximum: rest) { rest -= piece.count }
    }

    private static let pieceSize = 65_536
}

extension FormDisposition {
    /// The disposition of a part with this head; `nil` if it has no valid one.
    package init?(of head: HTTPFields) {
        guard
            let index = head.entries.indices.first(where: {
                head.name(at: $0).lowercasedASCII() == "content-disposition"
            })
        else { return nil }
        self.init(head.rawValue(at: index))
    }
}

/// The data of one file in a form.
package final class FormFile: ByteSource {
    private let reader: FormReader
    private var first: [UInt8]?

    /// - Parameter reader: Positioned at the data of the file. The caller must not use it while the data are pulled.
    package init(_ reader: FormReader) {
        self.reader = reader
    }

    package var remaining: Int64? { nil }

    package var interrupter: SourceInterrupter { reader.body.interrupter }

    /// Whether the file is empty.
    ///
    /// Must be called before the first pull.
    package func isEmpty() async throws(SourceFailure) -> Bool {
        first = try await reader.nextData(maximum: 1)
        return first == nil
    }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if let piece = first {
            first = nil
            return piece
        }
        return try await reader.nextData(maximum: maximum)
    }
}
