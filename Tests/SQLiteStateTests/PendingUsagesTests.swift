import Foundation
import GRDB
import SluiceTesting
import Testing
import UploadModel

@testable import SQLiteState

@Suite("Usage of accounts in shared transactions", .timeLimit(.minutes(10)))
struct PendingUsagesTests {
    private static let account = Account(.subject, "anna")
    private static let other = Account(.key, "k")
    private static let start = Date(timeIntervalSince1970: 1_750_000_000)

    private static func limits(openUploads: Int64?) -> EffectiveLimits {
        var policy = Policy()
        policy.openUploads = openUploads
        return EffectiveLimits(policies: [account: policy], period: QuotaPeriod(around: start, length: 86_400))
    }

    /// Counts one more open upload in both accounts.
    private static func charge(_ usages: PendingUsages, _ database: Database, openUploads limit: Int64? = nil) throws {
        var change = UsageChange()
        change.openUploads = 1
        let changes = [account: change, other: change]
        try usages.charge(changes, createdAt: start, under: limits(openUploads: limit), in: database)
    }

    private static func recorded(_ bench: WriterLaneTests.Bench) async throws -> [Int64?] {
        try await bench.database.read { database in
            try [account, other].map { try database.account($0)?.usage.openUploads }
        }
    }

    @Test("an account's row is written once for all uploads of a transaction, and includes each of them")
    func once() async throws {
        let bench = try await WriterLaneTests.Bench()
        let before = try await bench.database.writeWithoutTransaction(\.totalChangesCount)
        let codes = try await bench.together(0..<20) { _ throws(UploadError) in
            try await bench.lane.write { [usages = bench.usages] in try Self.charge(usages, $0) }
        }
        #expect(codes == [:])
        #expect(try await Self.recorded(bench) == [20, 20])
        #expect(try await bench.database.writeWithoutTransaction(\.totalChangesCount) - before == 2)
    }

    @Test("a limit counts the uploads of the same transaction, and what it refuses leaves nothing")
    func limit() async throws {
        let bench = try await WriterLaneTests.Bench()
        let codes = try await bench.together(0..<20) { _ throws(UploadError) in
            try await bench.lane.write { [usages = bench.usages] in try Self.charge(usages, $0, openUploads: 15) }
        }
        #expect(codes.count == 5)
        #expect(try await Self.recorded(bench) == [15, 15])
    }

    @Test("work that throws after it was charged is not charged")
    func thrown() async throws {
        let bench = try await WriterLaneTests.Bench()
        let codes = try await bench.together(0..<9) { number throws(UploadError) in
            try await bench.lane.write { [usages = bench.usages] database in
                try Self.charge(usages, database)
                if number % 3 == 1 { throw UploadError(.rejected, "No.") }
            }
        }
        #expect(codes == [1: .rejected, 4: .rejected, 7: .rejected])
        #expect(try await Self.recorded(bench) == [6, 6])
        // Alone, too.
        _ = await errorCode { () async throws(UploadError) in
            try await bench.lane.write(isAlone: true) { [usages = bench.usages] database in
                try Self.charge(usages, database)
                throw UploadError(.rejected, "No.")
            }
        }
        try await bench.lane.write { [usages = bench.usages] in try Self.charge(usages, $0) }
        #expect(try await Self.recorded(bench) == [7, 7])
    }

    @Test("if the transaction cannot be committed, each upload is charged once in its own")
    func commitFails() async throws {
        let bench = try await WriterLaneTests.Bench()
        let codes = try await bench.together(0..<5) { number throws(UploadError) in
            try await bench.lane.write { [usages = bench.usages] database in
                try Self.charge(usages, database)
                let double = number == 2 ? 99 : nil
                try database.execute(sql: "INSERT INTO number VALUES (?, ?)", arguments: [number, double])
            }
        }
        #expect(codes == [2: .storageFailure])
        #expect(try await Self.recorded(bench) == [4, 4])
    }
}
