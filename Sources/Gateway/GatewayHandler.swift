internal import GatewayKit
internal import HTTPServer
internal import HTTPWire
internal import Operations
internal import Foundation
internal import RESTKit
internal import UploadModel
internal import Webhooks

/// Handles requests on the gateway's listener: finds the claim or route, and adds the header fields common to all
/// responses.
struct GatewayHandler: RequestHandler {
    private let modules: [any GatewayModule]
    private let table: ClaimTable
    private let cors: CORSPolicy
    /// `nil` if the app has no hooks.
    private let hooks: HookContext?
    /// `nil` for the root.
    private let basePath: BasePath?
    private let publicURL: PublicURL

    init(
        modules: [any GatewayModule],
        table: ClaimTable,
        cors: CORSPolicy,
        hooks: HookContext?,
        basePath: BasePath?,
        publicURL: PublicURL
    ) {
        self.modules = modules
        self.table = table
        self.cors = cors
        self.hooks = hooks
        self.basePath = basePath
        self.publicURL = publicURL
    }

    func respond(to request: Request) async -> Response {
        var response: Response
        if let hooks, request.head.method != .get, request.head.method != .options {
            let context = hooks.make(for: request)
            response = await RequestContext.$current.with(context) {
                if let basePath { await route(request, below: basePath) } else { await route(request) }
            }
            hooks.apply(context, to: &response, for: request.head.method)
        } else if let basePath {
            response = await route(request, below: basePath)
        } else {
            response = await route(request)
        }
        response.fields.append("X-Request-ID", request.id)
        return response
    }

    /// Handles a request by the rest of its path.
    private func route(_ request: Request, below basePath: BasePath) async -> Response {
        guard let target = served(request.head.target, below: basePath) else {
            let text = "nothing is served at this path; all paths begin with \(basePath)"
            var response = Problem(404, "not_found", text).response(requestID: request.id)
            cors.decorate(&response, for: request.head)
            return response
        }
        var request = request
        request.head.target = target
        return await route(request)
    }

    /// What routes see of a target; `nil` if it is outside.
    private func served(_ target: RequestTarget, below basePath: BasePath) -> RequestTarget? {
        if target.segments.count == 1, Self.atRoot.contains(target.rawPath) { return target }
        return basePath.relative(target)
    }

    /// Probes and Prometheus ask the gateway itself, not the proxy, so these need no base path.
    private static let atRoot: Set<String> = ["/healthz", "/readyz", "/metrics"]

    /// The response to a request that a limit refuses before its content is read, in the form of its protocol.
    func refuse(_ error: UploadError, _ request: Request) -> Response {
        var request = request
        let target = basePath.map { served(request.head.target, below: $0) } ?? request.head.target
        if let target { request.head.target = target }
        var response: Response
        let claim = target == nil ? nil : table.claim(request.head)
        if let claim, let refuse = claim.refuse {
            response = refuse(error, request)
        } else {
            response = RESTErrors.problem(error).response(requestID: request.id)
            cors.decorate(&response, for: request.head)
        }
        if let claim {
            Self.trace(claim.template(of: request.head), claim.dialect, in: &response)
        } else if target != nil,
            case .found(let route, _) = table.router.match(request.head.method, request.head.target)
        {
            Self.trace(route.template, route.dialect, in: &response)
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
            Self.trace(template, claim.dialect, in: &response)
            return response
        }
        let match = table.router.match(head.method, head.target)
        if head.method == .options, let response = options(head, match) { return response }
        var response: Response
        switch match {
        case .found(let route, let parameters):
            response = await route.handler(request, parameters)
            Self.trace(route.template, route.dialect, in: &response)
        case .methodNotAllowed(let allowed, let template):
            let list = Self.list(allowed)
            var problem = Problem(405, "method_not_allowed", "\(head.method) is not offered here; use \(list)")
            problem.fields["Allow"] = list
            response = problem.response(requestID: request.id)
            response.trace.route = template
        case .notFound:
            if let page = StartPage.response(to: request, publicURL) { return page }
            response = Problem(404, "not_found", "nothing is served at this path; /openapi.yaml lists all paths")
                .response(requestID: request.id)
        }
        cors.decorate(&response, for: head)
        return response
    }

    /// Notes for logs and metrics what was served; a dialect that the response names is kept.
    private static func trace(
        _ template: String,
        _ dialect: Response.Trace.Dialect?,
        in response: inout Response
    ) {
        response.trace.route = template
        if response.trace.dialect == nil { response.trace.dialect = dialect }
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
