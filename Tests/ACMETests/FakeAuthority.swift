import Bytes
import Foundation
import HTTPWire
import Synchronization
import Testing

@testable import ACME
@testable import Digests
@testable import HTTPClient
@testable import Signing

/// A certificate authority in memory, for one order of two names; what it does wrong is chosen.
final class FakeAuthority: Sendable {
    /// What it does with one request instead of answering it.
    enum Fault: Sendable, CaseIterable {
        case disconnects, isBroken, answersNoJSON, answersAnotherObject, refusesNonce, limitsRate
    }

    struct State {
        /// Requests so far, by method and path.
        var calls: [String] = []
        var faults: [Int: Fault] = [:]
        var nonces: Set<String> = []
        var statuses = ["a.example.com": "pending", "b.example.com": "pending"]
        var hasFinalized = false
        var accountIsKnown = false
        var bindings: [JSONMembers] = []
    }

    static let base = "https://ca.example"
    let state = Mutex(State())
    /// Whether the answer to a challenge is right, when the authority looks.
    private let validates: @Sendable (_ name: String) -> Bool
    private let chain: String

    init(
        chain: String = PEM.text("CERTIFICATE", [1, 2, 3]),
        validates: @escaping @Sendable (String) -> Bool = { _ in true }
    ) {
        (self.chain, self.validates) = (chain, validates)
    }

    var calls: [String] { state.withLock { $0.calls } }

    /// Does something wrong with the request of this number, from 0.
    func fail(_ number: Int, by fault: Fault) { state.withLock { $0.faults[number] = fault } }

    func client(_ key: P256Key = P256Key(), elapsed: @escaping @Sendable () -> Duration = { .zero }) -> ACMEClient {
        ACMEClient(
            directory: Self.base + "/dir",
            key: key,
            now: { 0 },
            elapsed: elapsed,
            sending: { (request) throws(HTTPClientError) in
                try self.respond(to: request)
            }
        )
    }

    private func respond(to request: HTTPClientRequest) throws(HTTPClientError) -> HTTPClientResponse {
        let path = String(request.url.dropFirst(Self.base.count))
        let fault = state.withLock { state in
            defer { state.calls.append("\(request.method) \(path)") }
            return state.faults[state.calls.count]
        }
        let nonce = Base64.encodeURLSafe(SecureRandom.bytes(8))
        state.withLock { _ = $0.nonces.insert(nonce) }
        var response: HTTPClientResponse
        switch fault {
        case .disconnects: throw .connection
        case .isBroken: response = Self.problem(503, "serverInternal")
        case .answersNoJSON: response = HTTPClientResponse(status: 200, headers: HTTPFields(), body: [0x7B])
        case .answersAnotherObject: response = Self.json(200, "{\"status\":17,\"authorizations\":\"none\"}")
        case .refusesNonce: response = Self.problem(400, "badNonce")
        case .limitsRate:
            response = Self.problem(429, "rateLimited")
            response.headers["Retry-After"] = "7000"
        case nil: response = request.method == "POST" ? post(request, path) : read(path)
        }
        // A directory is the same for everybody.
        if request.method != "GET" { response.headers["Replay-Nonce"] = nonce }
        return response
    }

    private func read(_ path: String) -> HTTPClientResponse {
        guard path == "/dir" else { return HTTPClientResponse(status: 200, headers: HTTPFields(), body: []) }
        let members = ["newNonce", "newAccount", "newOrder"].map { "\"\($0)\":\"\(Self.base)/\($0)\"" }
        return Self.json(
            200,
            "{\(members.joined(separator: ",")),\"meta\":{\"termsOfService\":\"https://ca.example/terms\"}}"
        )
    }

    private func post(_ request: HTTPClientRequest, _ path: String) -> HTTPClientResponse {
        guard let (header, payload) = Self.open(request.body), case .string(let nonce)? = header["nonce"],
            state.withLock({ $0.nonces.remove(nonce) }) != nil, header["url"] == .string(request.url),
            (header["jwk"] != nil) == (path == "/newAccount")
        else { return Self.problem(400, "malformed") }
        let name = path.split(separator: "/").last.map(String.init) ?? ""
        return state.withLock { state in
            switch path {
            case "/newAccount":
                if let binding = payload?["externalAccountBinding"]?.members { state.bindings.append(binding) }
                return Self.json(state.accountIsKnown ? 200 : 201, "{\"status\":\"valid\"}", location: "/account/1")
            case "/newOrder": return Self.json(201, order(state), location: "/order")
            case "/order": return Self.json(200, order(state))
            case "/finalize":
                state.hasFinalized = true
                return Self.json(200, order(state))
            case "/certificate": return HTTPClientResponse(status: 200, headers: HTTPFields(), body: Array(chain.utf8))
            case _ where path.hasPrefix("/authorization/"):
                let status = state.statuses[name] ?? "invalid"
                let error =
                    status == "invalid"
                    ? ",\"error\":{\"type\":\"urn:ietf:params:acme:error:unauthorized\",\"detail\":\"wrong\"}" : ""
                let challenge =
                    "{\"type\":\"fake-01\",\"url\":\"\(Self.base)/challenge/\(name)\",\"token\":\"t-\(name.prefix(1))\"\(error)}"
                let identifier = "{\"type\":\"dns\",\"value\":\"\(name)\"}"
                return Self.json(
                    200,
                    "{\"status\":\"\(status)\",\"identifier\":\(identifier),\"challenges\":[\(challenge)]}"
                )
            case _ where path.hasPrefix("/challenge/"):
                state.statuses[name] = validates(name) ? "valid" : "invalid"
                return Self.json(200, "{}")
            default: return Self.problem(404, "malformed")
            }
        }
    }

    private func order(_ state: State) -> String {
        let names = state.statuses.keys.sorted()
        let isReady = state.statuses.values.allSatisfy { $0 == "valid" }
        let status = state.hasFinalized ? "valid" : isReady ? "ready" : "pending"
        let list = names.map { "\"\(Self.base)/authorization/\($0)\"" }.joined(separator: ",")
        return
            "{\"status\":\"\(status)\",\"authorizations\":[\(list)],\"finalize\":\"\(Self.base)/finalize\",\"certificate\":\"\(Self.base)/certificate\"}"
    }

    private static func json(_ status: Int, _ text: String, location: String? = nil) -> HTTPClientResponse {
        var headers = HTTPFields()
        if let location { headers["Location"] = base + location }
        return HTTPClientResponse(status: status, headers: headers, body: Array(text.utf8))
    }

    private static func problem(_ status: Int, _ type: String) -> HTTPClientResponse {
        json(status, "{\"type\":\"urn:ietf:params:acme:error:\(type)\",\"detail\":\"on purpose\"}")
    }

    private static func open(_ body: [UInt8]) -> (header: JSONMembers, payload: JSONMembers?)? {
        guard let members = JSONValue(json: body)?.members, case .string(let header)? = members["protected"],
            case .string(let payload)? = members["payload"],
            let read = Base64.decodeURLSafe(header).flatMap({ JSONValue(json: $0)?.members })
        else { return nil }
        return (read, Base64.decodeURLSafe(payload).flatMap { JSONValue(json: $0)?.members })
    }
}
