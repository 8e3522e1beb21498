internal import CloudCalls
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import MetricsKit
internal import ObjectGrants
internal import Presigning
internal import RESTKit
internal import Signing
internal import UploadCore

/// ApsaraVideo VOD, API version 2017-03-21: what an app's server calls with Alibaba Cloud's SDKs, and upload SDKs in STS
/// mode.
struct ApsaraAPIHandler: CloudAPI {
    private static let version = "2017-03-21"

    let actions: ApsaraActions
    let authentication: ApsaraAuthentication
    let presigning: ApsaraLinks
    let cors: CORSPolicy
    /// By call and code.
    let calls: CounterTable
    /// Tells the operator why a call could not be served.
    let report: @Sendable (_ call: String, _ error: any Error) -> Void

    func isMeant(by call: CloudCall) -> Bool {
        AliyunCalls.isMeant(by: call.head) || call.parameter("AccessKeyId") != nil
            || call.parameter("SignatureNonce") != nil || call.parameter("Version") == Self.version
            || call.parameter("Action").flatMap { ApsaraAction(rawValue: $0) }?.isAlsoUnsigned ?? false
    }

    func respond(to call: CloudCall, _ request: Request) async -> Response {
        var name = "other"
        var response: Response
        var code = "OK"
        do {
            let (action, document) = try await perform(call, request, &name)
            response = AliyunCalls.response(document, to: action.rawValue, call)
        } catch let failure as AliyunCallFailure {
            code = failure.code
            response = AliyunCalls.response(failure, to: call)
        } catch {
            report(name, error)
            code = "InternalError"
            let isBusy = (error as? UploadError).map { $0.code == .unavailable } ?? false
            response = AliyunCalls.response(
                isBusy
                    ? AliyunCallFailure(503, "ServiceUnavailable", "The server cannot do this now; try again.")
                    : AliyunCallFailure(500, code, "The server cannot do this now; try again."),
                to: call
            )
        }
        // The second half of a code has many values.
        calls[name, String(code.prefix { $0 != "." })].increment()
        response.fields["Cache-Control"] = "no-store"
        response.trace.route = "ApsaraVideo VOD"
        if code != "OK" { response.trace.errorCode = code }
        cors.decorate(&response, for: request.head)
        return response
    }

    private func perform(
        _ call: CloudCall,
        _ request: Request,
        _ name: inout String
    ) async throws -> (ApsaraAction, AliyunDocument) {
        if let problem = call.problem { throw AliyunCallFailure(400, "InvalidParameter", problem) }
        guard AliyunCalls.format(of: call) != nil else {
            throw AliyunCallFailure.invalid("Format", "must be JSON or XML")
        }
        let parameters = try ApsaraParameters(AliyunCalls.parameters(of: call))
        let named = try parameters.required("Action")
        guard let action = ApsaraAction(rawValue: named) else {
            throw AliyunCallFailure(
                404,
                "InvalidAction.NotFound",
                "The action `\(named.prefix(64))` is not served by this server."
            )
        }
        name = action.rawValue
        if action.isAlsoUnsigned, !AliyunCalls.isSigned(call) {
            return (action, try await progress(action, parameters, request))
        }
        guard parameters["Version"] == Self.version else {
            throw AliyunCallFailure(400, "InvalidVersion", "`Version` must be \(Self.version).")
        }
        let caller = try await authentication.caller(of: call, scope: action.scope)
        if action.isAlsoUnsigned { return (action, try await progress(action, parameters, request)) }
        let documents = try documents(for: request)
        let document = try await actions.perform(
            ApsaraActions.Call(action: action, parameters: parameters, caller: caller, documents: documents)
        )
        return (action, document)
    }

    /// - Throws: `OperationDenied` if there is no object endpoint for the bytes.
    func documents(for request: Request) throws(AliyunCallFailure) -> ApsaraDocuments {
        do throws(Problem) {
            return try presigning.documents(for: request, at: actions.place)
        } catch {
            throw AliyunCallFailure(
                403,
                "OperationDenied",
                "This server has no object endpoint (object.listen, object.publicURL)."
            )
        }
    }

    // MARK: Progress

    /// What upload SDKs report of their progress, most of them without a signature: kept with media that is being uploaded,
    /// for `GetUploadDetails`.
    private func progress(
        _ action: ApsaraAction,
        _ parameters: ApsaraParameters,
        _ request: Request
    ) async throws -> AliyunDocument {
        guard action == .reportUploadProgress, let id = parameters["VideoId"] ?? parameters["MediaId"] else {
            return AliyunDocument()
        }
        func short(_ name: String) -> String? {
            parameters[name].map { String($0.prefix(64)) }.flatMap { ApsaraParameters.isLegal($0) ? $0 : nil }
        }
        let ratio = parameters["UploadRatio"].flatMap { Double($0) }.flatMap { (0...1).contains($0) ? $0 : nil }
        let size = parameters["FileSize"].flatMap { Int64($0) }.flatMap {
            (0...ApsaraActions.largestFile).contains($0) ? $0 : nil
        }
        let now = actions.library.clock.now.unixSeconds
        _ = try await actions.library.change(id) { media in
            guard media.content == nil, now < media.openUntil else { return }
            var progress = media.progress ?? ApsaraMedia.Progress()
            progress.ratio = ratio ?? progress.ratio
            if let ratio, let size { progress.uploadedBytes = Int64(ratio * Double(size)) }
            progress.deviceModel = short("DeviceModel") ?? progress.deviceModel
            progress.source = short("Source") ?? progress.source
            progress.address = request.peerAddress
            media.progress = progress
        }
        return AliyunDocument()
    }
}

/// Links to the content of media, valid for some time.
struct ApsaraLinks: Sendable {
    let issuer: CredentialIssuer
    let objectURL: ObjectURL
    /// The region of the object endpoint.
    let region: String
    let clock: any WallClock

    /// - Throws: `Problem` 403 if there is no object endpoint.
    func documents(for request: Request, at place: ApsaraPlace) throws(Problem) -> ApsaraDocuments {
        let origin = try objectURL.origin(for: request)
        let presigner = ObjectPresigner(issuer: issuer, vendor: .aliyun, origin: origin, region: region)
        return ApsaraDocuments(place: place, endpoint: origin) { [clock] media, seconds in
            let now = clock.now
            let grant = Grant(
                id: "aliyun_" + media.id,
                issuer: media.issuer,
                subject: media.subject,
                expiresAt: now.addingTimeInterval(Double(seconds)),
                issuedAt: now
            )
            // Keys and ids are short, so the grant fits into a token.
            let signed = try? presigner.request(.getObject, media.name, under: grant, at: now)
            return signed?.url ?? "\(origin)/\(media.bucket)/\(media.key)"
        }
    }
}
