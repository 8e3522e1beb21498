import Foundation
import Gateway
import GatewayKit
import HTTPWire
import ObjectGateway
import Operations
import SettingsKit
import SluiceTesting
import Testing
import Yams

@Suite("openapi.yaml", .timeLimit(.minutes(10)))
struct OpenAPITests {
    private static let methods: Set = ["get", "head", "post", "put", "patch", "delete", "options"]

    /// `METHOD /path` of every operation in the document that the gateway serves.
    private func documented() throws -> Set<String> {
        let text = String(decoding: OpenAPIDocument.bytes, as: UTF8.self)
        let document = try #require(try Yams.load(yaml: text) as? [String: Any])
        let paths = try #require(document["paths"] as? [String: Any])
        var operations: Set<String> = []
        for (path, item) in paths {
            for key in try #require(item as? [String: Any]).keys where Self.methods.contains(key) {
                operations.insert("\(key.uppercased()) \(path)")
            }
        }
        return operations
    }

    /// The operations of the running gateway; HEAD accompanies every GET (RFC 9110 §9.3.2).
    private func served() async throws -> (must: Set<String>, may: Set<String>) {
        let directory = try TemporaryDirectory()
        var settings = Settings()
        settings.general.dataDirectory = directory.path
        settings.general.gateway.listen = ListenAddress(host: "127.0.0.1", port: 0)
        settings.object.listen = nil
        let gateway = try await GatewayServer(settings)
        let must = Set(gateway.routes.map { "\($0.method) \($0.template)" })
        // Paths where the dialect returns 405 in its own format are not operations.
        let refusals: Set = ["GET /files/{upload}"]
        let heads = gateway.routes.filter { $0.method == .get }.map { "HEAD \($0.template)" }
        return (must.subtracting(refusals), must.union(heads))
    }

    @Test(
        "the URL of this server replaces the default one",
        arguments: ["https://app.example/up", "http://a'b.example"]
    )
    func server(url: String) throws {
        let text = String(decoding: OpenAPIDocument.bytes(server: url), as: UTF8.self)
        let document = try #require(try Yams.load(yaml: text) as? [String: Any])
        let servers = try #require(document["servers"] as? [[String: Any]])
        #expect(servers.map { $0["url"] as? String } == [url])
        #expect(OpenAPIDocument.bytes(server: nil) == OpenAPIDocument.bytes)
    }

    @Test("every route of the router is described")
    func described() async throws {
        let missing = try await served().must.subtracting(documented())
        #expect(missing.isEmpty, "routes that openapi.yaml does not describe: \(missing.sorted())")
    }

    @Test("every operation in the document is served")
    func routed() async throws {
        let missing = try documented().subtracting(try await served().may)
        #expect(missing.isEmpty, "operations that no route serves: \(missing.sorted())")
    }
}
