internal import Bytes
internal import HTTPWire
internal import SystemIO
internal import UploadCore
internal import UploadModel

/// The content of a request, taken as fast as the limits of its client allow.
///
/// Before each slice, nothing is read from the socket until what the client owes is paid. The time counts for no timeout of the connection, except
/// `timeouts.request`.
final class PacedBody: RequestBody {
    private let body: any RequestBody
    private let meter: RequestMeter

    init(_ body: any RequestBody, _ meter: RequestMeter) {
        self.body = body
        self.meter = meter
    }

    var remaining: Int64? { body.remaining }
    var trailers: HTTPFields { body.trailers }
    var supportsTransfer: Bool { body.supportsTransfer }

    var interrupter: SourceInterrupter {
        SourceInterrupter { [meter, interrupter = body.interrupter] failure in
            meter.interrupt()
            interrupter.interrupt(as: failure)
        }
    }

    func arrives(_ count: Int) async -> Bool { await body.arrives(count) }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        let turn = await meter.turn()
        let piece = try await body.next(maximum: min(maximum, Int(clamping: turn)))
        if let piece { meter.took(Int64(piece.count)) }
        return piece
    }

    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome {
        var moved: Int64 = 0
        while true {
            let most = min(await meter.turn(), limit - moved)
            let outcome = await body.transfer(to: file, at: offset + moved, limit: most, on: pool)
            moved += outcome.moved
            meter.took(outcome.moved)
            guard outcome.end == .limitReached, moved < limit else {
                return TransferOutcome(moved: moved, end: outcome.end)
            }
        }
    }
}
