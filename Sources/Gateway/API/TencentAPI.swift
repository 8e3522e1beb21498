internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import TencentVOD
internal import UploadCore

/// `/v1/tencent`: signatures for the upload SDKs of Tencent Cloud VOD.
struct TencentAPI: Sendable {
    let issuer: TencentSignatureIssuer
    let access: Access
    let metrics: Metrics
    let bodyLimit: Int
    let clock: any WallClock

    var routes: [Route] {
        [
            Route(.post, "/v1/tencent/signatures") { request, _ in
                await answering(request) { () throws(Problem) in try await sign(request) }
            }
        ]
    }

    private func sign(_ request: Request) async throws(Problem) -> Response {
        try await access.require(.mint, request)
        let accept = AcceptHeader(request.head.fields["Accept"])
        guard let form = accept.best(of: ["application/json", "text/plain"]) else {
            throw Problem(406, "not_acceptable", "this answers as application/json or text/plain")
        }
        let bytes = try await JSONFields.content(of: request, limit: bodyLimit)
        let issued: IssuedSignature
        do throws(InvalidSignatureRequest) {
            issued = try issuer.issue(try SignatureRequest(json: bytes), at: clock.now)
        } catch {
            if error.problems.isEmpty { throw Problem(400, "invalid_json", error.message) }
            throw Problem.invalidFields(error.problems.map { .init(field: $0.field, message: $0.message) })
        }
        metrics.minted("tencent_signature")
        if form == "text/plain" {
            return Response(
                201,
                ["Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", "Vary": "Accept"],
                .bytes(Array((issued.signature + "\n").utf8))
            )
        }
        return JSONAnswer.response(201, issued, ["Vary": "Accept"])
    }
}
