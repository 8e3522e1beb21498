import SluiceTesting
import Bytes
import Foundation
import HTTPWire
import Testing

@testable import Signing

/// A request signed by a vendor's SDK, from a file in Tests/Fixtures/requests; see make.py there.
struct RequestVector: Sendable, Decodable, CustomTestStringConvertible {
    /// `oss1`, `oss4`, `cos`, `tc1`, `tc3`, `rpc` or `acs3`.
    let scheme: String
    /// The package that signed it, and its version; or the documentation that has it.
    let source: String
    /// What is unusual about it.
    let name: String?
    let id: String
    let secret: String
    let token: String?
    /// Unix seconds.
    let time: Int64
    /// Validity in seconds, for signatures with an expiry.
    let lifetime: Int64?
    let method: String
    /// For all schemes except OSS.
    let path: String?
    let bucket: String?
    let key: String?
    let query: [[String]]
    let headers: [[String]]
    /// SHA-256 of the content.
    let payload: String?
    /// The content, if it was recorded.
    let body: String?

    var testDescription: String {
        "\(source) \(scheme) \(method) \(name ?? "\(key ?? path ?? "") \(query.count)")"
    }

    static let oss = read("oss")
    static let cos = read("cos")
    static let tencent = read("tencent")
    static let aliyun = read("aliyun")
    static let aliyunHard = read("aliyun-hard")
    static let all = oss + cos + tencent + aliyun + aliyunHard

    private static func read(_ file: String) -> [RequestVector] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let url = folder.appending(path: "Fixtures/requests/\(file).json")
        do {
            return try JSONDecoder().decode([RequestVector].self, from: try Data(contentsOf: url))
        } catch {
            Issue.record("\(url.path()) cannot be read: \(error)")
            return []
        }
    }

    var credentials: SigningCredentials {
        SigningCredentials(accessKeyID: id, secretAccessKey: secret, sessionToken: token)
    }

    /// As sent.
    var request: SigningRequest {
        SigningRequest(
            method: method,
            path: path ?? "/",
            query: query.map { SigningField($0[0], $0[1]) },
            headers: headers.map { SigningField($0[0], $0[1]) },
            payload: payload.flatMap { SigV4Payload($0) } ?? .empty
        )
    }

    /// Verifies a request like a server that knows these credentials.
    func verify(
        _ request: SigningRequest,
        at now: Int64? = nil,
        skew: Int64 = .max,
        credentials: SigningCredentials? = nil,
        resource: OSSResource? = nil
    ) throws(RequestSignatureFailure) {
        let credentials = credentials ?? self.credentials
        let now = now ?? time
        switch scheme {
        case "oss1", "oss4":
            let verifier = OSSVerifier.forTests
            _ = try verifier.verify(
                try verifier.claim(request, at: now, skew: skew),
                resources: [resource ?? OSSResource(bucket: bucket, key: key ?? "")],
                credentials: credentials
            )
        case "cos":
            try COSVerifier().verify(try COSVerifier().claim(request, at: now, skew: skew), credentials: credentials)
        case "tc3":
            let verifier = TC3Verifier(service: nil)
            try verifier.verify(try verifier.claim(request, at: now, skew: skew), credentials: credentials)
        case "tc1":
            let claim = try TencentParameterSignature.claim(request, at: now, skew: skew)
            try TencentParameterSignature.verify(claim, credentials: credentials)
        case "rpc":
            try AliyunRPCSignature.verify(
                try AliyunRPCSignature.claim(request, at: now, skew: skew),
                credentials: credentials
            )
        default:
            try ACS3Signature.verify(try ACS3Signature.claim(request, at: now, skew: skew), credentials: credentials)
        }
    }
}

extension OSSVerifier {
    static let forTests = OSSVerifier(region: nil) { HTTPDate.parse($0) }
}

extension OSSSigner.Scheme {
    static let forTests: [OSSSigner.Scheme] = [.v1 { HTTPDate.format($0) }, .v4(region: "cn-shanghai")]
}

extension SigningRequest {
    /// The value of a header or of a query parameter.
    subscript(name: String) -> String? {
        (headers + query).first { $0.name.lowercased() == name.lowercased() }?.value
    }

    /// With a header or query parameter changed or removed.
    func changing(_ name: String, to value: String?) throws -> SigningRequest {
        var request = self
        func change(_ fields: inout [SigningField]) -> Bool {
            guard let index = fields.firstIndex(where: { $0.name.lowercased() == name.lowercased() }) else {
                return false
            }
            if let value {
                fields[index] = SigningField(fields[index].name, value)
            } else {
                fields.remove(at: index)
            }
            return true
        }
        try #require(change(&request.query) || change(&request.headers), "\(name) is not in the request")
        return request
    }

    /// With text in `Authorization` replaced.
    func replacing(_ old: String, _ new: String) throws -> SigningRequest {
        let text = try #require(self["authorization"])
        try #require(text.contains(old), "\(old) is not in \(text)")
        return try changing("authorization", to: text.replacing(old, with: new))
    }
}

extension SeededGenerator {
    /// A text of up to `count` pieces that implementations often get wrong.
    mutating func text(_ count: Int) -> String {
        let pieces = [
            "a", "B", "0", " ", "+", "%", "%20", "%2f", "~", "é", "e\u{301}", "ключ", "🎬", "&", "=", "?", "#", ";", ":",
            "/",
            "//", ".", "..", "*", "'", "\"", "(", ")", "[", "\\", "|", "<", ",", "@", "$", "-", "_", "\u{7F}",
        ]
        return (0..<Int.random(in: 0...count, using: &self)).map { _ in pieces.randomElement(using: &self) ?? "" }
            .joined()
    }

    /// A header value without surrounding white space, because messages cannot have any there.
    mutating func value(_ count: Int) -> String { "x\(text(count))x" }

    /// A request with unusual parts; `repeats` allows repeated parameters.
    mutating func request(repeats: Bool) -> SigningRequest {
        var query: [SigningField] = []
        for index in 0..<Int.random(in: 0...5, using: &self) {
            let names = ["partNumber", "uploadId", "uploads", "prefix", "position", "append", "x\(text(3))\(index)"]
            let name = names.randomElement(using: &self) ?? ""
            if repeats || !query.contains(where: { $0.name == name }) { query.append(SigningField(name, text(4))) }
        }
        var headers = [
            SigningField("Host", "bucket-1.example:8080"), SigningField("Content-Type", value(3)),
            SigningField("content-length", String(Int.random(in: 0...1_000_000, using: &self))),
        ]
        if Bool.random(using: &self) { headers.append(SigningField("x-oss-meta-a", value(4))) }
        if Bool.random(using: &self) { headers.append(SigningField("X-Cos-Meta-A", value(4))) }
        if Bool.random(using: &self) { headers.append(SigningField("x-acs-action", value(2))) }
        return SigningRequest(
            method: ["GET", "PUT", "POST", "DELETE", "HEAD"].randomElement(using: &self) ?? "GET",
            path: SigningRequest.path(of: "/" + text(6)),
            query: query.shuffled(using: &self),
            headers: headers.shuffled(using: &self),
            payload: SigV4Payload(content: Array(text(5).utf8))
        )
    }

    mutating func credentials() -> SigningCredentials {
        SigningCredentials(
            accessKeyID: "AK\(Int.random(in: 0...999, using: &self))",
            secretAccessKey: text(8),
            sessionToken: Bool.random(using: &self) ? value(4) : nil
        )
    }
}

/// Expects that a signed request is refused if any of its parameters is changed, missing or repeated, and if there is
/// an additional one.
///
/// - Parameters:
///   - request: Signed; its query has all signed parameters.
///   - timestamp: Another valid value of the parameter `Timestamp`, within the allowed time.
///   - verify: Throws if a request is refused.
/// - Throws: The error of `verify` for the unchanged request.
func expectEachParameterIsSigned(
    _ request: SigningRequest,
    timestamp: String,
    verify: (SigningRequest) throws -> Void
) throws {
    try verify(request)
    for field in request.query {
        let value = field.name == "Timestamp" ? timestamp : "other"
        #expect(throws: RequestSignatureFailure.self) { try verify(try request.changing(field.name, to: value)) }
        #expect(throws: RequestSignatureFailure.self) { try verify(try request.changing(field.name, to: nil)) }
        var twice = request
        twice.query.append(field)
        #expect(throws: RequestSignatureFailure.duplicate(field.name)) { try verify(twice) }
    }
    var more = request
    more.query.append(SigningField("a", ""))
    #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(more) }
}

/// Expects that a signed request is refused if any of its parameters is changed; with `failure`, if that is given.
///
/// - Parameters:
///   - request: Signed; its query has all signed parameters.
///   - end: What is appended to each value in turn.
///   - failure: The expected failure; `nil` for any.
///   - verify: Throws if a request is refused.
/// - Throws: The error of `verify` for the unchanged request.
func expectEachValueIsSigned(
    _ request: SigningRequest,
    appending end: String = "%",
    as failure: RequestSignatureFailure? = nil,
    verify: (SigningRequest) throws -> Void
) throws {
    try verify(request)
    for position in request.query.indices {
        var changed = request
        let field = request.query[position]
        changed.query[position] = SigningField(field.name, field.value + end)
        let found = #expect(throws: RequestSignatureFailure.self) { try verify(changed) }
        if let failure { #expect(found == failure) }
    }
}
