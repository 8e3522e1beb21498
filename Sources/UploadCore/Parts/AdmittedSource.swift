internal import Bytes
internal import UploadModel

/// Counts bytes whose number only the end of their source reveals, and has them admitted before they are passed on.
final class AdmittedSource: ByteSource {
    private let source: any ByteSource
    private let admit: (_ count: Int64) async throws(UploadError) -> Int64
    private var admitted: Int64 = 0
    /// Bytes that have arrived.
    private(set) var count: Int64 = 0
    /// Why they are too many; the source has ended with a failure then.
    private(set) var refusal: UploadError?

    /// - Parameters:
    ///   - source: The bytes.
    ///   - admit: Called with the number of bytes that have arrived; returns as many or more.
    init(_ source: any ByteSource, admitting admit: @escaping (_ count: Int64) async throws(UploadError) -> Int64) {
        self.source = source
        self.admit = admit
    }

    var remaining: Int64? { nil }
    var interrupter: SourceInterrupter { source.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if refusal != nil { throw .interrupted }
        guard let piece = try await source.next(maximum: maximum) else { return nil }
        count += Int64(piece.count)
        if count > admitted {
            do throws(UploadError) {
                admitted = try await admit(count)
            } catch {
                refusal = error
                throw .interrupted
            }
        }
        return piece
    }
}
