import Bytes
import Digests
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadModel

@testable import ObjectStore

/// How a request to OSS or COS is signed.
enum Signature: CaseIterable, Sendable {
    case ossV1, ossV4, ossV1Query, ossV4Query, cos, cosQuery

    static let oss: [Signature] = [.ossV1, .ossV4, .ossV1Query, .ossV4Query]
    static let cosBoth: [Signature] = [.cos, .cosQuery]

    var isQuery: Bool { self == .ossV1Query || self == .ossV4Query || self == .cosQuery }

    fileprivate var scheme: OSSSigner.Scheme {
        self == .ossV1 || self == .ossV1Query ? .v1(formatDate: { HTTPDate.format($0) }) : .v4(region: "cn-shanghai")
    }
}

extension ObjectBench {
    /// A request that is signed at a time; its content is not.
    ///
    /// - Parameters:
    ///   - method: In upper case.
    ///   - target: As it stands in the request line.
    ///   - credentials: Of whoever signs.
    ///   - signature: In which way.
    ///   - fields: Sent beside those of the signature; in `Host` there may be the bucket.
    ///   - resource: What OSS signs; by default what the path has.
    ///   - content: For its length.
    ///   - date: When it is signed; by default now.
    /// - Returns: Its head.
    /// - Throws: For what is no target.
    func signed(
        _ method: String,
        _ target: String,
        _ credentials: SigningCredentials = administrator,
        by signature: Signature,
        _ fields: HTTPFields = [:],
        resource: OSSResource? = nil,
        content: [UInt8] = [],
        at date: Date? = nil
    ) throws -> RequestHead {
        var fields = fields
        if fields["Content-Length"] == nil, !content.isEmpty || method == "PUT" || method == "POST" {
            fields["Content-Length"] = String(content.count)
        }
        var head = try s3Head(method, target, fields)
        let request = try SigningRequest(head)
        let now = (date ?? clock.now).unixSeconds
        let added: [SigningField]
        switch signature {
        case .ossV1, .ossV4, .ossV1Query, .ossV4Query:
            let address = EndpointHosts(hosts: ["s3.example.org"]).address(of: head)
            let resource = resource ?? OSSResource(bucket: address.bucket, key: address.key)
            let signer = OSSSigner(credentials: credentials, scheme: signature.scheme)
            added =
                signature.isQuery
                ? signer.presign(request, resource: resource, at: now, lifetime: 600)
                : signer.sign(request, resource: resource, at: now)
        case .cos, .cosQuery:
            let window = COSWindow(start: now - 60, end: now + 600)
            let signer = COSSigner(credentials: credentials)
            added = signature.isQuery ? signer.presign(request, window: window) : signer.sign(request, window: window)
        }
        guard signature.isQuery else {
            for field in added { head.fields[try #require(FieldName(field.name))] = field.value }
            return head
        }
        head.target = try RequestTarget(parsing: "\(head.target.rawPath)?\(SigningRequest.query(of: added))")
        return head
    }

    func send(
        _ method: String,
        _ target: String,
        _ credentials: SigningCredentials = administrator,
        by signature: Signature,
        _ fields: HTTPFields = [:],
        resource: OSSResource? = nil,
        content: [UInt8] = []
    ) async throws -> Response {
        let head = try signed(
            method,
            target,
            credentials,
            by: signature,
            fields,
            resource: resource,
            content: content
        )
        return await send(head, content)
    }

    /// The id of a new multipart upload.
    func begin(
        _ target: String,
        _ credentials: SigningCredentials = administrator,
        by signature: Signature,
        _ fields: HTTPFields = [:]
    ) async throws -> String {
        let response = try await send("POST", target + "?uploads", credentials, by: signature, fields)
        return try #require(response.element("UploadId"))
    }
}

/// As OSS and COS return it.
func crc64(_ bytes: [UInt8]) -> String {
    var check = CRC64XZ()
    check.update(bytes)
    return String(check.value)
}

extension Response {
    /// The text of the first element with this name.
    func element(_ name: String) -> String? {
        guard
            let rest = text?.split(separator: "<\(name)>", maxSplits: 1, omittingEmptySubsequences: false).dropFirst()
                .first
        else { return nil }
        return rest.split(separator: "</\(name)>", maxSplits: 1, omittingEmptySubsequences: false).first.map {
            String($0)
        }
    }
}
