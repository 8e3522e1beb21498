internal import Bytes
internal import UploadCore
internal import UploadModel

/// Content that was sent to a link, and where it belongs.
///
/// It belongs to the task of its request.
final class VimeoContent {
    private(set) var source: any ByteSource
    /// The position of its first byte.
    let start: Int64
    /// Bytes of the whole file; `nil` if its client does not say.
    let total: Int64?
    /// Whether it is the whole file.
    let isWhole: Bool
    private var hasBegun = false

    init(_ source: any ByteSource, from start: Int64, of total: Int64?, isWhole: Bool) {
        self.source = source
        self.start = start
        self.total = total
        self.isWhole = isWhole
    }

    /// Whether nothing may come: the file may be an empty one, or the request a stray one.
    var mayBeEmpty: Bool { source.remaining == 0 || source.remaining == nil && start == 0 }

    /// Checks what the client says about its file.
    ///
    /// - Parameter size: Of the file, as announced before; `nil` if unknown.
    /// - Throws: `.lengthExceeded` if it says more, `.lengthConflict` if it says less.
    func check(against size: Int64?) throws(UploadError) {
        guard let size else { return }
        if let total, total > size { throw VimeoUploads.excess(size) }
        let isShort = isWhole && source.remaining.map { $0 > 0 && $0 < size } ?? false
        if isShort || total.map({ $0 < size }) ?? false {
            throw UploadError(
                .lengthConflict(length: size),
                "The file has \(size) bytes; send all of them, or say in Content-Range which part it is."
            )
        }
    }

    /// Waits for the first byte: a request without content must not take the place of what is stored.
    ///
    /// - Parameter size: Of the file, as announced before; `nil` if unknown.
    /// - Returns: `false` if there is no content, and the file is not said to be empty.
    /// - Throws: What the source throws.
    func begins(of size: Int64?) async throws(UploadError) -> Bool {
        if hasBegun || total == 0 || size == 0 { return true }
        do throws(SourceFailure) {
            guard let first = try await source.next(maximum: 1 << 16) else { return false }
            source = PrefixedSource(first, before: source)
        } catch {
            throw UploadError(error)
        }
        hasBegun = true
        return true
    }
}

extension ByteSource {
    /// Compares the bytes that come with those of another source, until one ends.
    ///
    /// - Returns: How many came; `nil` if they differ, or are more than those of the other.
    func countRepeating(_ other: any ByteSource) async throws(SourceFailure) -> Int64? {
        var count: Int64 = 0
        while let piece = try await next(maximum: 1 << 16) {
            var rest = piece[...]
            while !rest.isEmpty {
                guard let wanted = try await other.next(maximum: rest.count), rest.starts(with: wanted) else {
                    return nil
                }
                rest = rest.dropFirst(wanted.count)
            }
            count += Int64(piece.count)
        }
        return count
    }
}
