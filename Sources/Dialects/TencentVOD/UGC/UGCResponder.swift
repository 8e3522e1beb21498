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
    var report: @Sendable (_ call: String, _ message: String) -> Void { get }

    /// The response to a call.
    ///
    /// - Parameters:
    ///   - name: The action in the query; not necessarily a known one.
    ///   - request: The call.
    /// - Returns: The response, and its code for metrics, of which there is a bounded number.
    /// - Throws: `VODError`.
    func answer(_ name: String, _ request: Request) async throws(VODError) -> (response: Response, code: String)
}

extension UGCResponder {
    func respond(to request: Request) async -> Response {
        if let preflight = cors.preflight(request.head, methods: [.get, .post]) { return preflight }
        let name = (try? request.head.target.queryItems())?.first("Action") ?? ""
        let call = UGCHandler.known.contains(name) ? name : "other"
        var response: Response
        let code: String
        do throws(VODError) {
            (response, code) = try await answer(name, request)
        } catch {
            if error.refusal == nil { report(call, error.message) }
            response = self.response(to: error)
            code = response.trace.errorCode ?? ""
        }
        calls[call, code].increment()
        if code != "0" { response.trace.errorCode = code }
        cors.decorate(&response, for: request.head)
        return response
    }

    /// The response to a call that is refused before it is handled.
    func refuse(_ error: UploadError) -> Response { response(to: .core(error)) }

    private func response(to error: VODError) -> Response {
        var response = error.refusal.map(UGCDocuments.failure) ?? UGCDocuments.unavailable()
        if let wait = error.retryAfter { response.fields["Retry-After"] = wait }
        response.trace.errorCode = error.refusal.map { String($0.code.rawValue) } ?? "503"
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
