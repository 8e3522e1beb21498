import Foundation
import Gateway
import GatewayKit
import HTTPClient
import HTTPWire
import Logging
import ObjectGateway
import ServiceLifecycle
import SettingsKit
import SluiceTesting
import Telemetry
import Testing
import Transport

/// A gateway with the fourth service among its modules, over SQLite and a data directory, at real sockets.
struct LanternBench {
    struct Answer {
        var status: Int
        var body: [String: Any]
        var retryAfter: String?

        func text(_ name: String) throws -> String { try #require(body[name] as? String, "\(body)") }
    }

    static let adminKey = "slk_0123456789abcdef0123456789"

    private let url: String
    private let client = HTTPClient(userAgent: "test", addresses: .any)

    /// Serves during the body, then shuts down; posts events to a server of the app, if there is one.
    static func run(events: TestServer? = nil, _ body: (LanternBench) async throws -> Void) async throws {
        let directory = try TemporaryDirectory()
        var settings = Settings()
        settings.general.dataDirectory = directory.path
        settings.general.gateway.listen = ListenAddress(host: "127.0.0.1", port: 0)
        settings.general.adminKey = Secret(adminKey)
        settings.object.listen = nil
        settings.log.level = .critical
        settings[LanternSettings.self].callbackURL = events?.url
        let gateway = try await GatewayServer(settings, adding: [LanternService.self])
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: Running(gateway: gateway))],
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
        )
        let running = Task { try await group.run() }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(LanternBench(url: gateway.localURL)))
        } catch {
            outcome = .failure(error)
        }
        await group.triggerGracefulShutdown()
        try await running.value
        try outcome.get()
    }

    private struct Running: Service {
        let gateway: GatewayServer

        func run() async throws {
            try await gateway.run(greeting: "") { () throws(SettingsProblems) in
                try GatewaySettings.catalog.load(environment: [:])
            }
        }
    }

    private init(url: String) { self.url = url }

    /// Makes a call; its content is sent as JSON.
    func call(
        _ method: String,
        _ path: String,
        _ content: [String: Any]? = nil,
        key: String? = adminKey
    ) async throws -> Answer {
        var headers: [(name: String, value: String)] = []
        if let key { headers.append((name: "Authorization", value: "Bearer \(key)")) }
        if content != nil { headers.append((name: "Content-Type", value: "application/json")) }
        let body = try content.map { Array(try JSONSerialization.data(withJSONObject: $0)) } ?? []
        let response = try await client.send(
            HTTPClientRequest(method: method, url: url + path, headers: headers, body: body)
        )
        let members = try? JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any]
        return Answer(
            status: response.status,
            body: members ?? [:],
            retryAfter: response.headers["Retry-After"]
        )
    }

    /// Sends bytes as a client of tus.
    ///
    /// - Returns: The status.
    func send(_ bytes: [UInt8], at offset: Int = 0, to url: String) async throws -> Int {
        let headers = [
            (name: "Tus-Resumable", value: "1.0.0"), (name: "Upload-Offset", value: String(offset)),
            (name: "Content-Type", value: "application/offset+octet-stream"),
        ]
        return try await client.send(HTTPClientRequest(method: "PATCH", url: url, headers: headers, body: bytes)).status
    }

    /// Begins, sends and commits a video.
    ///
    /// - Returns: Its id.
    func video(_ title: String, tags: [String], user: String? = nil, key: String? = adminKey) async throws -> String {
        var content: [String: Any] = ["title": title, "tags": tags, "size": 5]
        if let user { content["user"] = user }
        let begun = try await call("POST", "/lantern/videos", content, key: key)
        let id = try begun.text("id")
        #expect(try await send(Array("hello".utf8), to: begun.text("uploadURL")) == 204)
        #expect(try await call("PUT", "/lantern/videos/\(id)", key: key).status == 200)
        return id
    }

    /// An API key that is only for these users.
    func key(for users: [String]) async throws -> String {
        let content: [String: Any] = ["name": "limited", "scopes": ["upload", "read", "delete"], "subjects": users]
        return try await call("POST", "/v1/keys", content).text("secret")
    }
}
