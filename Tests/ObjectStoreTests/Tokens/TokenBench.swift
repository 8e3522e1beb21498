import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadModel
import XMLText

@testable import ObjectGrants
@testable import ObjectStore
@testable import TokenServices

/// The token services at noon, with keys that may mint, to whom a clock and a secret belong.
struct TokenBench {
    /// The key of the vectors; of an administrator.
    static let administrator = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "examplesecret")
    /// Of a key that may mint, and neither read nor remove.
    static let minter = SigningCredentials(accessKeyID: "SLAKMINTER", secretAccessKey: "othersecret")
    /// A lookup that fails, as where the state is away.
    static let unavailable = SigningCredentials(accessKeyID: "SLAKAWAY", secretAccessKey: "examplesecret")

    let clock = ManualClock(noon)
    let issuer = CredentialIssuer(master: master(1))
    let handler: TokenServiceHandler
    private let minted = Counter()

    private final class Counter: Sendable {
        let count = Mutex(0)
    }

    init(identities: (any WebIdentityVerifier)? = nil) {
        let minted = minted
        handler = TokenServiceHandler(
            issuer: issuer,
            clock: clock,
            minter: { (accessKeyID) async throws(UploadError) in
                switch accessKeyID {
                case Self.administrator.accessKeyID:
                    return TokenMinter([Self.administrator], Self.key("key_a", [.admin]))
                case Self.minter.accessKeyID: return TokenMinter([Self.minter], Self.key("key_m", [.mint]))
                case Self.unavailable.accessKeyID: throw UploadError(.unavailable, "The state is away.")
                default: return nil
                }
            },
            identities: identities,
            onMint: { minted.count.withLock { $0 += 1 } }
        )
    }

    private static func key(_ id: String, _ scopes: Set<Scope>) -> APIKey {
        APIKey(id: id, name: id, scopes: scopes, createdAt: noon, digest: [])
    }

    var mintedCount: Int { minted.count.withLock { $0 } }

    func send(_ message: TokenMessage) async throws -> Response {
        let head = try message.head()
        #expect(TokenServiceHandler.isMeant(by: head))
        return await handler.respond(
            to: Request(
                head: head,
                body: ObjectBench.Body(Array(message.content.utf8)),
                id: "request-1",
                peerAddress: "::1",
                isEncrypted: false
            ) { _ in }
        )
    }

    /// The session whose credentials a response holds.
    func session(_ response: Response, of vendor: Vendor) throws -> Session {
        let text = try #require(response.text)
        let (id, secret, token) = try Self.credentials(text, of: vendor)
        #expect(AccessKeyID.vendor(of: id) == vendor)
        let session = try issuer.open(accessKeyID: id, token: token, at: clock.now)
        #expect(session.secretAccessKey.text == secret)
        return session
    }

    private static func credentials(
        _ text: String,
        of vendor: Vendor
    ) throws -> (id: String, secret: String, token: String) {
        struct Names {
            let id, secret, token: String
        }
        let names =
            switch vendor {
            case .aws: Names(id: "AccessKeyId", secret: "SecretAccessKey", token: "SessionToken")
            case .aliyun: Names(id: "AccessKeyId", secret: "AccessKeySecret", token: "SecurityToken")
            case .tencent: Names(id: "TmpSecretId", secret: "TmpSecretKey", token: "Token")
            }
        if text.hasPrefix("{") {
            var json = try #require(JSONValue(json: Array(text.utf8)))
            for name in (vendor == .tencent ? ["Response"] : []) + ["Credentials"] {
                json = try #require(json[name])
            }
            func member(_ name: String) throws -> String {
                guard case .string(let text)? = json[name] else { throw MissingMember(name: name) }
                return text
            }
            return (try member(names.id), try member(names.secret), try member(names.token))
        }
        let root = try #require(XMLNode.parse(Array(text.utf8)))
        let members = (root.children + root.children.flatMap(\.children)).first { $0.name == "Credentials" }
        return (
            try #require(members?[names.id]), try #require(members?[names.secret]), try #require(members?[names.token])
        )
    }

    private struct MissingMember: Error {
        let name: String
    }
}

extension JSONValue {
    fileprivate subscript(name: String) -> JSONValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }
}

/// A call of a token service, to be changed before it is sent.
struct TokenMessage: Sendable {
    var method: String
    var target: String
    var fields: [(name: String, value: String)]
    var content: String

    init(method: String, target: String, fields: [(String, String)], content: String) {
        self.method = method
        self.target = target
        self.fields = fields.map { (name: $0.0, value: $0.1) }
        self.content = content
    }

    func head() throws -> RequestHead {
        let method = HTTPMethod(rawValue: method)
        var fields = HTTPFields()
        for (name, value) in self.fields { fields.append(try #require(FieldName(name)), value) }
        return RequestHead(method: method, target: try RequestTarget(parsing: target, method: method), fields: fields)
    }

    /// The same with other text wherever `old` stands.
    func replacing(_ old: String, with new: String) -> TokenMessage {
        var changed = self
        changed.target = target.replacing(old, with: new)
        changed.content = content.replacing(old, with: new)
        changed.fields = fields.map { (name: $0.name, value: $0.value.replacing(old, with: new)) }
        return changed
    }

    func with(_ name: String, _ value: String?) -> TokenMessage {
        var changed = self
        changed.fields.removeAll { $0.name.lowercased() == name.lowercased() }
        if let value { changed.fields.append((name: name, value: value)) }
        return changed
    }
}
