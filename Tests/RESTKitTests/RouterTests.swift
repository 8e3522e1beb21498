import RESTKit
import HTTPWire
import Testing

@Suite("router", .timeLimit(.minutes(10)))
struct RouterTests {
    private let router = Router(
        [
            (HTTPMethod.get, "/v1/uploads"), (.get, "/v1/uploads/{id}"), (.delete, "/v1/uploads/{id}"),
            (.get, "/v1/uploads/latest"), (.post, "/v1/media/{id}/links"), (.get, "/"),
        ].map { method, template in Route(method, template) { _, _ in Response(200) } }
    )

    private func find(_ method: HTTPMethod, _ path: String) throws -> String {
        let target = try RequestTarget(parsing: path)
        return switch router.match(method, target) {
        case .found(let route, let parameters): "\(route.method) \(route.template) \(parameters["id"])"
        case .methodNotAllowed(let allowed, _): "405 " + allowed.map(\.rawValue).joined(separator: ",")
        case .notFound: "404"
        }
    }

    @Test(
        "finds the route; fixed segments take precedence over names",
        arguments: [
            ("GET", "/v1/uploads", "GET /v1/uploads "),
            ("GET", "/v1/uploads/7", "GET /v1/uploads/{id} 7"),
            ("GET", "/v1/uploads/latest", "GET /v1/uploads/latest "),
            ("HEAD", "/v1/uploads/7", "GET /v1/uploads/{id} 7"),
            ("DELETE", "/v1/uploads/7", "DELETE /v1/uploads/{id} 7"),
            ("PUT", "/v1/uploads/7", "405 DELETE,GET,HEAD"),
            ("POST", "/v1/media/9/links", "POST /v1/media/{id}/links 9"),
            ("GET", "/v1/media/9/links", "405 POST"),
            ("GET", "/v1/media/9", "404"),
            ("GET", "/v1/uploads/", "404"),
            ("GET", "/v1/uploads/7/8", "404"),
            ("GET", "/v1", "404"),
            ("GET", "/", "GET / "),
        ]
    )
    func match(method: String, path: String, expected: String) throws {
        #expect(try find(HTTPMethod(rawValue: method), path) == expected)
    }
}
