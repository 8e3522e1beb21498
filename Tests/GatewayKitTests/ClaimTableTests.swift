import RESTKit
import HTTPWire
import Testing

@testable import GatewayKit

@Suite("What modules serve on one listener", .timeLimit(.minutes(10)))
struct ClaimTableTests {
    private struct Module: GatewayModule {
        var name: String
        var routes: [Route] = []
        var claims: [Claim] = []
    }

    private static func route(_ method: HTTPMethod, _ template: String) -> Route {
        Route(method, template) { _, _ in Response(200) }
    }

    private static func claim(_ templates: [String], when text: String? = nil, method: HTTPMethod? = nil) -> Claim {
        Claim(
            templates,
            when: text.map { text in Claim.Condition(text: text) { method == nil || $0.method == method } },
            operations: []
        ) { _ in Response(200, ["X-Claim": text ?? "all"]) }
    }

    private static func head(_ method: HTTPMethod, _ path: String) throws -> RequestHead {
        RequestHead(method: method, target: try RequestTarget(parsing: path), fields: [:])
    }

    @Test("claims of one path with different conditions coexist, those with a condition first")
    func besideEachOther() async throws {
        let table = try ClaimTable([
            Module(name: "a", claims: [Self.claim(["/files", "/files/{upload}"])]),
            Module(name: "b", claims: [Self.claim(["/files"], when: "PUT", method: .put)]),
            Module(name: "c", claims: [Self.claim(["/v3/index.php"])]),
            Module(name: "d", claims: [Self.claim(["/"], when: "Action")]),
        ])
        let expected: [(HTTPMethod, String, String?)] = [
            (.put, "/files", "PUT"), (.post, "/files", "all"), (.put, "/files/1", "all"), (.put, "/files/1/2", nil),
            (.get, "/v3/index.php", "all"), (.get, "/v3", nil), (.get, "/v3/index.php/x", nil), (.get, "/", "Action"),
            (.get, "/?Action=X", "Action"), (.get, "/filesystem", nil),
        ]
        for (method, path, name) in expected {
            let claim = table.claim(try Self.head(method, path))
            #expect((claim.map { $0.condition?.text ?? "all" }) == name, "\(method) \(path)")
        }
    }

    @Test("the template of a claimed path depends on its number of segments")
    func templates() throws {
        let claim = Self.claim(["/files", "/files/{upload}"])
        #expect(claim.template(of: try Self.head(.get, "/files")) == "/files")
        #expect(claim.template(of: try Self.head(.get, "/files/1")) == "/files/{upload}")
    }

    @Test(
        "if two modules claim the same requests, the start fails and names both",
        arguments: [
            ([Self.claim(["/files"])], [], [Self.claim(["/files"])], []),
            ([Self.claim(["/me"], when: "x")], [], [Self.claim(["/me"], when: "x")], []),
            ([], [Self.route(.get, "/v1/x/{id}")], [], [Self.route(.get, "/v1/x/{name}")]),
            ([Self.claim(["/v1", "/v1/{x}"])], [], [], [Self.route(.get, "/v1/{id}")]),
        ] as [([Claim], [Route], [Claim], [Route])]
    )
    func conflicts(_ one: [Claim], _ routes: [Route], _ other: [Claim], _ others: [Route]) throws {
        let modules = [
            Module(name: "first", routes: routes, claims: one), Module(name: "second", routes: others, claims: other),
        ]
        let failure = #expect(throws: ClaimTable.Conflict.self) { try ClaimTable(modules) }
        let text = try #require(failure).description
        #expect(text.contains("first") && text.contains("second"), "\(text)")
    }

    @Test("other methods of one path, and other paths, do not conflict")
    func noConflict() throws {
        let table = try ClaimTable([
            Module(name: "a", routes: [Self.route(.get, "/v1/x"), Self.route(.get, "/v1/{id}")]),
            Module(name: "b", routes: [Self.route(.put, "/v1/x")], claims: [Self.claim(["/v1/y"], when: "z")]),
        ])
        #expect(table.operations.count == 3)
    }
}
