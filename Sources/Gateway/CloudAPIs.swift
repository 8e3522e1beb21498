internal import CloudCalls
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import UploadCore

/// The APIs of clouds, which all are at the root of the listener: only the content of a form shows which one it is for.
struct CloudAPIs: GatewayModule {
    let name = "APIs of clouds"
    let claims: [Claim]

    /// - Parameters:
    ///   - apis: In the order in which they are asked; the last one answers what none recognises.
    ///   - clock: The time of calls.
    init(_ apis: [any CloudAPI], clock: any WallClock) {
        guard let last = apis.last else {
            claims = []
            return
        }
        let claim = Claim(
            ["/"],
            when: Claim.Condition(text: "calls of the API of a cloud", holds: CloudCall.canBe),
            operations: [(method: .post, template: "/"), (method: .get, template: "/")]
        ) { request in
            let call = await CloudCall(request, at: clock.now)
            return await (apis.first { $0.isMeant(by: call) } ?? last).respond(to: call, request)
        }
        claims = [claim]
    }
}
