import Bytes
import Foundation
import SluiceTesting
import SystemIO
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Sources whose first bytes were pulled", .timeLimit(.minutes(10)))
struct PrefixedSourceTests {
    private let temporary: TemporaryDirectory
    private let calls = ScriptedCalls()
    private let pool: BlockingPool

    init() throws {
        temporary = try TemporaryDirectory()
        pool = BlockingPool(threads: 1, label: "test", calls: calls)
    }

    private func source(_ rest: [UInt8] = [4, 5]) -> PrefixedSource {
        PrefixedSource([1, 2, 3], before: ScriptedSource([.bytes(rest)], supportsTransfer: true), nil)
    }

    /// Transfers into a new file, and returns what is in it.
    private func transfer(_ source: PrefixedSource, limit: Int64) async throws -> (TransferOutcome, [UInt8]) {
        let path = temporary.path("file")
        let file = try await pool.run { io throws(SystemError) in
            try io.open(path, O_WRONLY | O_CREAT | O_TRUNC)
        }
        let outcome = await source.transfer(to: file, at: 0, limit: limit, on: pool)
        return (outcome, [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))))
    }

    @Test("they are written before the others, by the pool", arguments: [1, 2, 3, 4, 5, 6])
    func limits(limit: Int64) async throws {
        let (outcome, bytes) = try await transfer(source(), limit: limit)
        #expect(outcome == TransferOutcome(moved: min(limit, 5), end: limit > 5 ? .endOfSource : .limitReached))
        #expect(bytes == Array([1, 2, 3, 4, 5].prefix(Int(limit))))
        #expect(calls.names.contains("pwrite"))
    }

    @Test("a failed write is reported with the bytes before it, and nothing is lost or repeated after a short one")
    func faults() async throws {
        calls.plan(0, of: "pwrite", .fails(EIO))
        let failed = try await transfer(source(), limit: 9)
        #expect(failed.0 == TransferOutcome(moved: 0, end: .fileFailed(errno: EIO)))
        calls.plan(0, of: "pwrite", .moves(2))
        let short = try await transfer(source(), limit: 9)
        #expect(short.0 == TransferOutcome(moved: 5, end: .endOfSource))
        #expect(short.1 == [1, 2, 3, 4, 5])
    }

    @Test("a stop within them is continued by the next transfer")
    func continued() async throws {
        let source = source()
        #expect(try await transfer(source, limit: 2).1 == [1, 2])
        let (outcome, bytes) = try await transfer(source, limit: 9)
        #expect(outcome == TransferOutcome(moved: 3, end: .endOfSource))
        #expect(bytes == [3, 4, 5])
    }
}
