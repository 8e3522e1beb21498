internal import CloudCalls
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import UploadModel

/// The APIs of clouds, which all are at the root of the listener: only the content of a form shows which one it is for.
struct CloudAPIs: GatewayModule {
    let name = "APIs of clouds"
    let claims: [Claim]

    /// - Parameters:
    ///   - apis: In the order in which they are asked. What none recognises goes to the one that answers others' calls; without
    ///     one, nothing is served then.
    ///   - clock: The time of calls.
    ///   - skew: Seconds by which a caller's clock may differ.
    init(_ apis: [any CloudAPI], clock: any WallClock, skew: Int64) {
        let fallback = apis.first(where: \.answersOthers)
        let claim = Claim(
            ["/"],
            when: Claim.Condition(text: "calls of the API of a cloud", holds: CloudCall.canBe),
            operations: [(method: .post, template: "/"), (method: .get, template: "/")],
            refuse: { error, request in
                // A form is not read for this, so that a refusal costs nothing; its vendor may be unknown.
                let call = CloudCall(head: request, at: clock.now, skew: skew)
                let api = apis.first { $0.isMeant(by: call) } ?? fallback
                return api?.refuse(error, call) ?? RESTErrors.problem(error).response(requestID: request.id)
            }
        ) { request in
            let call = await CloudCall(request, at: clock.now, skew: skew)
            guard let api = apis.first(where: { $0.isMeant(by: call) }) ?? fallback else {
                return Problem(404, "not_found", "this server does not serve the API that this call is for")
                    .response(requestID: request.id)
            }
            return await api.respond(to: call, request)
        }
        claims = [claim]
    }
}
