import CloudCalls
import ObjectGateway
import SluiceTesting
import Testing
import UploadModel

@testable import TencentVOD

@Suite("Errors of Tencent VOD", .timeLimit(.minutes(10)))
struct VODErrorTests {
    @Test("each error of the core is a refusal with a code, or one of the server, in both APIs")
    func core() {
        for code in UploadError.Code.samples {
            let error = VODError.core(UploadError(code, "Change it."))
            let (refusal, call): (VODFailure.Code?, String?) =
                switch code {
                case .tooLarge, .contentTypeRefused, .quotaExceeded, .forbidden, .rejected:
                    (.notAllowed, "LimitExceeded.Quota")
                case .invalidRequest: (.invalidRequest, "InvalidParameterValue")
                case .tooManyRequests: (.tooManyRequests, "RequestLimitExceeded")
                default: (nil, nil)
                }
            #expect(error.refusal?.code == refusal && error.callFailure?.code == call, "\(code)")
            #expect(error.refusal == nil || error.refusal?.message == "Change it.")
            #expect(error.message == "Change it.")
            #expect((error.retryAfter != nil) == (refusal == .tooManyRequests))
        }
    }

    @Test("each refusal has a code in both APIs, and a cloud that does not answer has none")
    func refusals() {
        for code in VODFailure.Code.allCases {
            let error = VODError(code, "Change it.")
            #expect(error.refusal?.code == code && error.callFailure?.code.isEmpty == false)
        }
        let call = VODError("UnknownParameter", "Leave it out.")
        #expect(call.callFailure == TencentCallFailure("UnknownParameter", "Leave it out."))
        #expect(call.refusal == VODFailure(.invalidRequest, "Leave it out."))
        let cloud = VODError.cloud(CloudForwarder.Failure("It does not answer."))
        #expect(cloud.refusal == nil && cloud.callFailure == nil && cloud.message == "It does not answer.")
    }

    @Test("a deletion that the app refuses is no error of the server, which clients would repeat")
    func deletion() {
        let refused = VODActions.refusal(ofDeletion: UploadError(.rejected, "It is kept."))
        #expect(refused.callFailure == TencentCallFailure("UnauthorizedOperation", "It is kept."))
        #expect(VODActions.refusal(ofDeletion: UploadError(.unavailable, "Later.")).callFailure == nil)
    }
}
