import Foundation
import SluiceTesting
import Testing

@testable import UploadCore

@Suite("Admission before anything is sent")
struct AdmissionTests {
    @Test("what would be refused at creation is refused, and nothing is reserved")
    func admission() async throws {
        let bench = ServiceBench()
        let grant = Grant(id: "g", subject: "dora", maximumBytes: 60, expiresAt: .distantFuture)
        var policy = Policy()
        policy.storedBytes = 100
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "dora"))
        func code(_ length: Int64) async -> UploadError.Code? {
            await errorCode { () async throws(UploadError) in
                try await bench.services.uploads.checkAdmission(
                    of: NewUpload(dialect: "cos", length: length),
                    under: grant
                )
            }
        }
        for _ in 0..<3 { #expect(await code(60) == nil) }
        if case .tooLarge = await code(61) {} else { Issue.record("61 bytes are more than the grant allows") }
        _ = try await bench.services.uploads.create(NewUpload(dialect: "cos", length: 50), under: grant)
        #expect(await code(50) == nil)
        if case .quotaExceeded = await code(51) {} else { Issue.record("51 bytes are more than the quota has left") }
    }
}
