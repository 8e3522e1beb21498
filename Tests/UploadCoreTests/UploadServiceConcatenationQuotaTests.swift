import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Quotas and concatenation", .timeLimit(.minutes(10)))
struct UploadServiceConcatenationQuotaTests {
    private static let alice = Account(.subject, "alice")

    private func partial(_ length: Int64?) -> NewUpload {
        NewUpload(dialect: "tus", length: length, concatenation: Concatenation(.partial, raw: "partial"))
    }

    private func final(_ parts: [UploadID]) -> NewUpload {
        NewUpload(dialect: "tus", length: nil, concatenation: Concatenation(.final(parts: parts), raw: "final;…"))
    }

    private func bench(_ change: (inout Policy) -> Void) -> ServiceBench {
        var policy = Policy()
        change(&policy)
        return ServiceBench(limits: UploadLimits(maximumBytes: 1000, lifetime: 3600, policies: [.subject: policy]))
    }

    private func complete(_ length: Int, _ bench: ServiceBench) async throws -> UploadID {
        let id = try await bench.services.uploads.create(partial(Int64(length)), under: bench.grant()).id
        try await bench.append([UInt8](repeating: 7, count: length), to: id, at: 0)
        return id
    }

    private func usage(_ services: UploadServices) async throws -> Usage {
        try await services.quota.quota(of: Self.alice).usage
    }

    @Test("a final upload that a quota refuses counts nowhere, leaves nothing, and tells of nothing")
    func refused() async throws {
        let bench = bench {
            $0.storedBytes = 10
            $0.periodUploads = 3
        }
        let part = try await complete(6, bench)
        let events = try await bench.state.events(EventQuery(after: 0)).count
        for _ in 0..<5 {
            let refusal = await code {
                try await bench.services.uploads.create(final([part, part]), under: bench.grant())
            }
            #expect(refusal?.name == "quota_exceeded")
        }
        let used = try await usage(bench.services)
        #expect((used.periodUploads, used.openUploads, used.reservedBytes) == (1, 0, 6))
        #expect(try await bench.state.events(EventQuery(after: 0)).count == events)
        #expect(try await bench.storage.list(after: nil, limit: 9) == [part])
        #expect(try await bench.services.uploads.create(final([part]), under: bench.grant()).state == .completed)
    }
}
