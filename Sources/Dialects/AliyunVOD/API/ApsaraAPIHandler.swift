internal import Bytes
internal import CloudCalls
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import MetricsKit
internal import ObjectGateway
internal import ObjectGrants
internal import Presigning
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// ApsaraVideo VOD, API version 2017-03-21: what an app's server calls with Alibaba Cloud's SDKs, and upload SDKs in STS
/// mode.
struct ApsaraAPIHandler: CloudAPI {
    private static let version = "2017-03-21"

    let service: any ApsaraService
    let authentication: ApsaraAuthentication
    let cors: CORSPolicy
    /// By call and code.
    let calls: CounterTable
    /// Tells the operator why a call could not be served.
    let report: @Sendable (_ call: String, _ message: String) -> Void

    func isMeant(by call: CloudCall) -> Bool {
        AliyunCalls.isMeant(by: call.head) || call.parameter("AccessKeyId") != nil
            || call.parameter("SignatureNonce") != nil || call.parameter("Version") == Self.version
            || call.parameter("Action").flatMap { ApsaraAction(rawValue: $0) }?.isAlsoUnsigned ?? false
    }

    func respond(to call: CloudCall, _ request: Request) async -> Response {
        var name = "other"
        var response: Response
        var code = "OK"
        do throws(ApsaraError) {
            switch try await perform(call, request, &name) {
            case .document(let document):
                response = AliyunCalls.response(document, to: name, call)
                response.trace.mediaID = Self.media(document, call)
            case .forwarded(let reply):
                response = AliyunCalls.response(Status(reply.status), reply.content, to: call)
                response.trace.mediaID = Self.media(AliyunDocument(), call)
                if reply.status != 200 { code = "forwarded" }
            }
        } catch {
            let failure: AliyunCallFailure
            switch error {
            case .refused(let refusal): failure = refusal
            case .core(let error):
                let refusal = AliyunCallFailure(refusal: error)
                if refusal == nil { report(name, error.message) }
                failure = refusal ?? AliyunCallFailure(failure: error)
            }
            code = failure.code
            response = AliyunCalls.response(failure, to: call)
            if let wait = error.retryAfter { response.fields["Retry-After"] = wait }
        }
        // The second half of a code has many values.
        calls[name, String(code.prefix { $0 != "." })].increment()
        response.fields["Cache-Control"] = "no-store"
        response.trace.route = "ApsaraVideo VOD"
        response.trace.dialect = .aliyun
        if code != "OK" { response.trace.errorCode = code }
        cors.decorate(&response, for: request.head)
        return response
    }

    func refuse(_ error: UploadError, _ call: CloudCall) -> Response {
        let failure =
            AliyunCallFailure(refusal: error) ?? .unavailable(503, "The server cannot do this now; try again.")
        var response = AliyunCalls.response(failure, to: call)
        if let wait = error.retryAfter { response.fields["Retry-After"] = wait }
        response.fields["Cache-Control"] = "no-store"
        response.trace.dialect = .aliyun
        response.trace.errorCode = failure.code
        cors.decorate(&response, for: call.head)
        return response
    }

    /// The media that a call began or named, for the log.
    private static func media(_ document: AliyunDocument, _ call: CloudCall) -> String? {
        let names = ["VideoId", "ImageId", "MediaId"]
        for case (let name, .text(let id)) in document.members where names.contains(name) { return id }
        return names.lazy.compactMap { call.parameter($0) }.first { ApsaraMedia.isID($0) }
    }

    private func perform(
        _ call: CloudCall,
        _ request: Request,
        _ name: inout String
    ) async throws(ApsaraError) -> ApsaraAnswer {
        if let problem = call.problem {
            let code = problem.contains("NUL") ? "IllegalCharacters" : "InvalidParameter"
            throw ApsaraError(400, code, problem)
        }
        guard let format = AliyunCalls.format(of: call) else {
            throw ApsaraError.invalid("Format", "must be JSON or XML")
        }
        let values: [(name: String, value: String)]
        do throws(AliyunCallFailure) {
            values = try AliyunCalls.parameters(of: call)
        } catch {
            throw .refused(error)
        }
        let parameters = try ApsaraParameters(values)
        let named = try parameters.required("Action")
        guard let action = ApsaraAction(rawValue: named) else {
            throw ApsaraError(
                404,
                "InvalidAction.NotFound",
                "The action `\(named.first(scalars: 64))` is not served by this server."
            )
        }
        name = action.rawValue
        let isReport = action == .reportUploadProgress
        if action.isAlsoUnsigned, !AliyunCalls.isSigned(call) {
            guard isReport else { return .document(try await service.progress(parameters)) }
            try await service.report(parameters, from: request.clientAddress)
            return .document(AliyunDocument())
        }
        guard parameters["Version"] == Self.version else {
            throw ApsaraError(400, "InvalidVersion", "`Version` must be \(Self.version).")
        }
        let caller = try await authentication.caller(of: call, for: action)
        if isReport { try await service.report(parameters, from: request.clientAddress) }
        return try await service.perform(
            ApsaraOrder(action: action, parameters: parameters, caller: caller, wantsXML: format == .xml),
            for: request
        )
    }
}

/// Links to the content of media, valid for some time.
struct ApsaraLinks: Sendable {
    let issuer: CredentialIssuer
    let objectURL: ObjectURL
    /// The region of the object endpoint.
    let region: String
    let clock: any WallClock

    /// - Throws: `OperationDenied` if there is no object endpoint for the bytes.
    func documents(
        for request: Request,
        at place: ApsaraPlace,
        by caller: ApsaraCaller
    ) throws(ApsaraError) -> ApsaraDocuments {
        let origin: String
        do throws(Problem) {
            origin = try objectURL.origin(for: request)
        } catch {
            throw ApsaraError(
                403,
                "OperationDenied",
                "This server has no object endpoint (object.listen, object.publicURL)."
            )
        }
        let presigner = ObjectPresigner(issuer: issuer, vendor: .aliyun, origin: origin, region: region)
        return ApsaraDocuments(place: place, endpoint: origin) { [clock] media, seconds in
            let now = clock.now
            let grant = Grant(
                id: media.right,
                issuer: caller.issuer,
                subject: media.subject,
                expiresAt: caller.lastExpiry(now.addingTimeInterval(Double(seconds)), at: now),
                issuedAt: now
            )
            // Keys and ids are short, so the grant fits into a token.
            let signed = try? presigner.request(.getObject, media.name, under: grant, at: now)
            return signed?.url ?? "\(origin)/\(media.bucket)/\(media.key)"
        }
    }
}
