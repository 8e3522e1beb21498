internal import GatewayKit
internal import HTTPServer
internal import HTTPWire
internal import Foundation
internal import RESTKit
internal import UploadCore
internal import Webhooks

/// Handles requests on the gateway's listener: finds the claim or route, and adds the header fields common to all
/// responses.
struct GatewayHandler: RequestHandler {
    private let modules: [any GatewayModule]
    private let table: ClaimTable
    private let cors: CORSPolicy
    /// `nil` if the app has no hooks.
    private let hooks: HookContext?

    init(modules: [any GatewayModule], table: ClaimTable, cors: CORSPolicy, hooks: HookContext?) {
        self.modules = modules
        self.table = table
        self.cors = cors
        self.hooks = hooks
    }

    func respond(to request: Request) async -> Response {
        var response: Response
        if let hooks, request.head.method != .get, request.head.method != .options {
            let context = hooks.make(for: request)
            response = await RequestContext.$current.withValue(context) { await route(request) }
            hooks.apply(context, to: &response, for: request.head.method)
        } else {
            response = await route(request)
        }
        response.fields.append("X-Request-ID", request.id)
        return response
    }

    private func route(_ request: Request) async -> Response {
        let head = request.head
        // The module handles everything it claims, so that it refuses wrong methods in its own format too.
        if let claim = table.claim(head) {
            var response = await claim.respond(request)
            let template = claim.template(of: head)
            if head.method == .options, claim.isDescription(response) { describe(template, to: head, in: &response) }
            response.trace.route = template
            return response
        }
        let match = table.router.match(head.method, head.target)
        if head.method == .options, let response = options(head, match) { return response }
        var response: Response
        switch match {
        case .found(let route, let parameters):
            response = await route.handler(request, parameters)
            response.trace.route = route.template
        case .methodNotAllowed(let allowed, let template):
            let list = Self.list(allowed)
            var problem = Problem(405, "method_not_allowed", "\(head.method) is not offered here; use \(list)")
            problem.fields["Allow"] = list
            response = problem.response(requestID: request.id)
            response.trace.route = template
        case .notFound:
            response = Problem(404, "not_found", "nothing is served at this path; /openapi.yaml lists all paths")
                .response(requestID: request.id)
        }
        cors.decorate(&response, for: head)
        return response
    }

    private func describe(_ template: String, to head: RequestHead, in response: inout Response) {
        for module in modules { module.describe(template, to: head, in: &response) }
    }

    /// The response to OPTIONS on a known path: a CORS preflight, or the available methods (RFC 9110 §9.3.7).
    private func options(_ head: RequestHead, _ match: Router.Match) -> Response? {
        if head.target.rawPath == "*" {
            var response = Response(204, ["Allow": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"])
            describe("*", to: head, in: &response)
            return response
        }
        guard case .methodNotAllowed(let allowed, let template) = match else { return nil }
        var response: Response
        if let preflight = cors.preflight(head, methods: allowed) {
            response = preflight
        } else {
            response = Response(204, ["Allow": Self.list(allowed)])
            describe(template, to: head, in: &response)
        }
        response.trace.route = template
        cors.decorate(&response, for: head)
        return response
    }

    /// `Allow`: the methods of a route plus OPTIONS, which every path has.
    private static func list(_ methods: [HTTPMethod]) -> String {
        (methods.map(\.rawValue) + ["OPTIONS"]).joined(separator: ", ")
    }
}
