import CloudCalls
import SluiceTesting
import Testing
import UploadModel

@testable import AliyunVOD

@Suite("Errors of ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraErrorTests {
    @Test("each error of the core is a refusal with a code, or one of the server")
    func core() {
        for code in UploadError.Code.samples {
            let core = UploadError(code, "Change it.")
            let error = ApsaraError.core(core)
            let expected: (Int, String)? =
                switch code {
                case .tooLarge, .contentTypeRefused: (400, "InvalidParameter")
                case .quotaExceeded: (403, "OperationDenied")
                case .forbidden, .rejected: (403, "Forbidden")
                case .tooManyRequests: (400, "Throttling.User")
                default: nil
                }
            #expect(error.refusal?.status == expected?.0 && error.refusal?.code == expected?.1, "\(code)")
            #expect(error.refusal?.message.contains("Change it.") ?? true)
            #expect(error.message == "Change it.")
            #expect((error.retryAfter != nil) == (expected?.1 == "Throttling.User"))
            let failure = AliyunCallFailure(failure: core)
            #expect(failure.status == (code == .unavailable ? 503 : 500) && !failure.message.contains("Change it."))
        }
    }

    @Test("a deletion that the app refuses is no error of the server, which clients would repeat")
    func refusedDeletion() async throws {
        let hook = RefusingHook()
        let bench = try ApsaraBench(hooks: hook)
        let media = try await bench.made()
        hook.refuse(media.key)
        let refused = try await code { _ = try await bench.call(.deleteVideo, ["VideoIds": media.id]) }
        #expect(refused == "Forbidden")
    }
}
