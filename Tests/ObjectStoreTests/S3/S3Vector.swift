import Bytes
import Foundation
import HTTPWire
import Signing
import Testing
import UploadModel

@testable import ObjectStore

/// A request as botocore sends it, from Tests/Fixtures/requests/aws.json; see make.py there.
struct S3Vector: Sendable, Decodable, CustomTestStringConvertible {
    let source: String
    let id: String
    let secret: String
    let token: String?
    /// Unix seconds.
    let time: Int64
    /// Seconds in which the signature is in force, if it is in the query.
    let lifetime: Int64?
    /// As the Amazon S3 API Reference calls it.
    let operation: String
    let method: String
    let target: String
    let headers: [[String]]
    /// In Base64, as it is sent.
    let body: String
    /// In Base64, as it is meant.
    let content: String
    /// Of an upload by a form.
    let form: [[String]]?

    var testDescription: String { "\(operation) \(method) \(target.prefix(60)) \(token == nil ? "" : "token")" }

    static let all: [S3Vector] = {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let url = folder.appending(path: "Fixtures/requests/aws.json")
        do {
            return try JSONDecoder().decode([S3Vector].self, from: try Data(contentsOf: url))
        } catch {
            Issue.record("\(url.path()) cannot be read: \(error)")
            return []
        }
    }()

    static let signed = all.filter { $0.form == nil }
    static let forms = all.filter { $0.form != nil }

    static let endpoint = EndpointHosts(hosts: ["s3.example.org"])

    var now: Date { Date(timeIntervalSince1970: Double(time)) }

    var credentials: SigningCredentials {
        SigningCredentials(accessKeyID: id, secretAccessKey: secret, sessionToken: token)
    }

    func head() throws -> RequestHead {
        let method = HTTPMethod(rawValue: method)
        var fields = HTTPFields()
        for header in headers { fields.append(try #require(FieldName(header[0])), header[1]) }
        return RequestHead(method: method, target: try RequestTarget(parsing: target, method: method), fields: fields)
    }

    func bytes(_ text: String) throws -> [UInt8] { try #require(Base64.decode(text)) }

    /// Authenticates the sender, with these credentials as an administrator's.
    ///
    /// Tokens here are not those of the issuer, so requests with one are checked by what `ObjectAuthentication` is made of.
    func caller(_ head: RequestHead, secret: String? = nil, at now: Date? = nil) async throws -> ObjectCaller {
        let known = SigningCredentials(accessKeyID: id, secretAccessKey: secret ?? self.secret, sessionToken: token)
        let now = now ?? self.now
        guard token == nil else {
            let verifier = SigV4Verifier(region: "us-east-1")
            do {
                let claim = try verifier.claim(try SigningRequest(head), at: now.unixSeconds)
                let signature = try verifier.verify(claim, credentials: known)
                return ObjectCaller(.administrator, accessKeyID: id, payload: claim.payload, signature: signature)
            } catch let failure as RequestSignatureFailure {
                throw ObjectError(signature: failure, isQuery: lifetime != nil, region: "us-east-1")
            }
        }
        let operation = try Self.operation(head)
        return try await ObjectAuthentication.knowing(known).authenticate(head, for: operation, at: now)
    }

    static func operation(_ head: RequestHead) throws(ObjectError) -> ObjectOperation {
        try s3Operation(head, at: endpoint)
    }
}
