import HTTPWire
import ObjectGateway
import SluiceTesting
import Testing
import UploadModel

@testable import Vimeo

@Suite("Errors of Vimeo's API", .timeLimit(.minutes(10)))
struct VimeoErrorTests {
    @Test("each error of the core has an answer, and the operator is told of those of the server")
    func core() {
        for code in UploadError.Code.samples {
            let core = UploadError(code, "Change it.")
            let error = VimeoError.core(core)
            #expect(error.failure == VimeoFailure(core), "\(code)")
            #expect(error.isOfServer == (error.failure.status.code >= 500), "\(code)")
            #expect((400..<600).contains(error.failure.status.code) && error.message == "Change it.")
        }
    }

    @Test(
        "refusals are answered as they are; a video that changes all the time is busy, and a Vimeo that is away is not available"
    )
    func others() {
        #expect(VimeoError.refused(.notFound).failure == .notFound && !VimeoError.refused(.notFound).isOfServer)
        #expect(VimeoError(403, 4101, "No.").failure == VimeoFailure(403, 4101, "No."))
        #expect(VimeoError.changed.failure == .busy && !VimeoError.changed.isOfServer)
        let away = VimeoError.cloud(CloudForwarder.Failure("It does not answer."))
        #expect(away.failure.status == 503 && away.isOfServer && away.message == "It does not answer.")
    }
}
