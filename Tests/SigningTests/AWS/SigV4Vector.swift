import Foundation
import Signing
import Testing

/// A request with its signature, from a file in Tests/Fixtures/sigv4; see make.py there.
struct SigV4Vector: Sendable, Decodable, CustomTestStringConvertible {
    let name: String
    let accessKeyID: String
    let secretAccessKey: String
    let sessionToken: String?
    let region: String
    let service: String
    /// `s3`, `general`, `asItIs` (general without path normalisation) or `withPayloadHeader` (general with that
    /// header).
    let rules: String
    /// Unix seconds.
    let time: Int64
    /// Lifetime in seconds of a signature in the query; `nil` for one in `Authorization`.
    let lifetime: Int64?
    let method: String
    let path: String
    let query: [[String]]
    let headers: [[String]]
    let payload: String
    let signedHeaders: String
    let signature: String

    var testDescription: String { name }

    static let suite = read("suite")
    static let documentation = read("documentation")
    static let botocore = read("botocore")
    static let all = suite + documentation + botocore

    static func named(_ name: String) throws -> SigV4Vector {
        try #require(all.first { $0.name == name })
    }

    private static func read(_ file: String) -> [SigV4Vector] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let url = folder.appending(path: "Fixtures/sigv4/\(file).json")
        do {
            return try JSONDecoder().decode([SigV4Vector].self, from: try Data(contentsOf: url))
        } catch {
            Issue.record("\(url.path()) cannot be read: \(error)")
            return []
        }
    }

    var credentials: SigningCredentials {
        SigningCredentials(accessKeyID: accessKeyID, secretAccessKey: secretAccessKey, sessionToken: sessionToken)
    }

    var sigV4Rules: SigV4Rules {
        switch rules {
        case "s3": .s3
        case "asItIs": SigV4Rules(escapesPathTwice: true, normalizesPath: false, needsPayloadHeader: false)
        case "withPayloadHeader": SigV4Rules(escapesPathTwice: true, normalizesPath: true, needsPayloadHeader: true)
        default: .general
        }
    }

    var signer: SigV4Signer {
        SigV4Signer(credentials: credentials, region: region, service: service, rules: sigV4Rules)
    }

    /// Before signing.
    func request() throws -> SigningRequest {
        SigningRequest(
            method: method,
            path: path,
            query: query.map { SigningField($0[0], $0[1]) },
            headers: headers.map { SigningField($0[0], $0[1]) },
            payload: try #require(SigV4Payload(payload))
        )
    }

    /// As sent.
    func signedRequest() throws -> SigningRequest {
        var request = try request()
        if let lifetime {
            request.query = signer.presign(request, at: time, lifetime: lifetime)
        } else {
            request.headers += signer.sign(request, at: time).fields
        }
        return request
    }

    /// Verifies a request like a server that knows these credentials.
    @discardableResult
    func verify(
        _ request: SigningRequest,
        at now: Int64? = nil,
        credentials: SigningCredentials? = nil
    ) throws(RequestSignatureFailure) -> SigV4Signature {
        var rules = sigV4Rules
        // Only S3 does not sign the content of a URL, so only its rules allow a URL without payload.
        if lifetime != nil, self.rules != "s3" { rules.needsPayloadHeader = false }
        let verifier = SigV4Verifier(region: region, service: service, rules: rules)
        let claim = try verifier.claim(request, at: now ?? time)
        return try verifier.verify(claim, credentials: credentials ?? self.credentials)
    }
}

extension [SigningField] {
    subscript(name: String) -> String? { first { $0.name == name }?.value }
}
