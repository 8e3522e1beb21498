internal import HTTPServer
internal import HTTPWire
internal import ResumableHTTP
internal import Foundation
internal import UploadCore

/// The gateway's listener: finds the route, and gives every answer what all answers have.
struct GatewayHandler: RequestHandler {
    private let router: Router
    private let cors: CORSPolicy
    private let tus: any RequestHandler
    private let plain: PlainUploads
    /// `nil` where the app has no hooks.
    private let hooks: HookContext?

    init(
        router: Router,
        cors: CORSPolicy,
        tus: any RequestHandler,
        plain: PlainUploads,
        hooks: HookContext?
    ) {
        self.router = router
        self.cors = cors
        self.tus = tus
        self.plain = plain
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
        let segments = head.target.segments
        // The dialect answers everything below its root, so that wrong methods are told in its own form too.
        if segments.first == Self.tusRoot, segments.count <= 2 {
            var response = await files(request)
            response.trace.route = segments.count == 1 ? "/files" : "/files/{upload}"
            return response
        }
        let match = router.match(head.method, head.target)
        if head.method == .options, let answer = options(head, match) { return answer }
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
            response = Problem(404, "not_found", "there is nothing at this path; see /openapi.yaml for what there is")
                .response(requestID: request.id)
        }
        cors.decorate(&response, for: head)
        return response
    }

    /// Uploads by tus and by the IETF draft, which share their upload resources.
    private func files(_ request: Request) async -> Response {
        let head = request.head
        if ResumableHTTPHandler.isMeant(by: head) {
            let token = head.target.segments.count == 2 ? head.target.segments[1] : ""
            var response = await plain.respond(to: request, upload: token.isEmpty ? nil : token)
            cors.decorate(&response, for: head)
            return response
        }
        var below = request
        below.head.target = head.target.dropFirstSegment()
        var response = await tus.respond(to: below)
        // A preflight is asked by a browser, and says nothing about protocols.
        if head.method == .options, response.fields.contains("Tus-Version") {
            plain.describeDiscovery(to: head, in: &response)
        }
        return response
    }

    /// The answer to OPTIONS on a known path: a CORS preflight, or what methods there are (RFC 9110 §9.3.7).
    private func options(_ head: RequestHead, _ match: Router.Match) -> Response? {
        if head.target.rawPath == "*" {
            var response = Response(204, ["Allow": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"])
            plain.describeDiscovery(to: head, in: &response)
            return response
        }
        guard case .methodNotAllowed(let allowed, let template) = match else { return nil }
        var response: Response
        if let preflight = cors.preflight(head, methods: allowed) {
            response = preflight
        } else {
            response = Response(204, ["Allow": Self.list(allowed)])
            if PlainUploads.isTarget(template) { plain.describeDiscovery(to: head, in: &response) }
        }
        response.trace.route = template
        cors.decorate(&response, for: head)
        return response
    }

    /// `Allow`: the methods of a route, and OPTIONS, which every path has.
    private static func list(_ methods: [HTTPMethod]) -> String {
        (methods.map(\.rawValue) + ["OPTIONS"]).joined(separator: ", ")
    }

    static let tusRoot = "files"
}

extension RequestTarget {
    /// The target as a handler below the first segment sees it.
    fileprivate func dropFirstSegment() -> RequestTarget {
        RequestTarget(rawPath: rawPath, rawQuery: rawQuery, authority: authority, segments: Array(segments.dropFirst()))
    }
}

/// Runs the body of a REST route and turns what it throws into a problem document.
func answering(_ request: Request, _ body: () async throws(Problem) -> Response) async -> Response {
    do throws(Problem) {
        return try await body()
    } catch {
        return error.response(requestID: request.id)
    }
}
