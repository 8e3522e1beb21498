internal import Bytes
internal import CoreMetrics
internal import HTTPWire
internal import MetricsKit
internal import RESTKit
internal import UploadModel
internal import VODKit

/// Serves the calls of the upload SDKs, and takes their reports.
///
/// Every logical outcome has status 200; SDKs read `code`.
protocol UGCResponder: Sendable {
    var cors: CORSPolicy { get }
    /// By call and code.
    var calls: CounterTable { get }
    /// Tells the operator why a call was not served.
    var report: @Sendable (_ call: String, _ error: any Error) -> Void { get }

    /// The response to a call.
    ///
    /// - Parameters:
    ///   - name: The action in the query; not necessarily a known one.
    ///   - request: The call.
    /// - Returns: The response, and its code for metrics, of which there is a bounded number.
    /// - Throws: `VODFailure`; any other error means that the call cannot be served now.
    func answer(_ name: String, _ request: Request) async throws -> (response: Response, code: String)
}

extension UGCResponder {
    func respond(to request: Request) async -> Response {
        if let preflight = cors.preflight(request.head, methods: [.get, .post]) { return preflight }
        let name = (try? request.head.target.queryItems())?.first("Action") ?? ""
        let call = UGCHandler.known.contains(name) ? name : "other"
        var response: Response
        let code: String
        do {
            (response, code) = try await answer(name, request)
        } catch let failure as VODFailure {
            code = String(failure.code.rawValue)
            response = UGCDocuments.failure(failure)
        } catch let error as UploadError where error.isTooManyRequests {
            code = String(VODFailure.Code.tooManyRequests.rawValue)
            response = refuse(error)
        } catch {
            report(call, error)
            code = "503"
            response = UGCDocuments.unavailable()
        }
        calls[call, code].increment()
        cors.decorate(&response, for: request.head)
        return response
    }

    /// The response to a call that is refused before it is handled.
    func refuse(_ error: UploadError) -> Response {
        var response = VODFailure(refusal: error).map(UGCDocuments.failure) ?? UGCDocuments.unavailable()
        if case .tooManyRequests(let refusal) = error.code { response.fields["Retry-After"] = refusal.retryAfter }
        return response
    }

    /// A report of an SDK about its work; counted, and otherwise dropped.
    ///
    /// It is not forwarded in `direct` mode: reports have no signature, so anyone could have this server send anything to
    /// the cloud.
    func takeReport(_ request: Request) async -> Response {
        if let preflight = cors.preflight(request.head, methods: [.post]) { return preflight }
        _ = try? await request.body.collect(limit: UGCHandler.bodyLimit)
        calls["report", "0"].increment()
        var response = UGCDocuments.nothing()
        cors.decorate(&response, for: request.head)
        return response
    }
}
