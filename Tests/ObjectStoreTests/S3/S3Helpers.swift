import Foundation
import HTTPWire
import Signing
import Testing
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

/// A request without signature.
func s3Head(_ method: String, _ target: String, _ fields: HTTPFields = [:]) throws -> RequestHead {
    let method = HTTPMethod(rawValue: method)
    var fields = fields
    if !fields.contains("Host") { fields.append("Host", "s3.example.org") }
    return RequestHead(method: method, target: try RequestTarget(parsing: target, method: method), fields: fields)
}

/// What a request of a client of S3 asks for.
func s3Operation(_ head: RequestHead, at endpoint: EndpointHosts = EndpointHosts()) throws(ObjectError)
    -> ObjectOperation
{
    try OperationDecoder.operation(try RequestReader(head, .aws), for: endpoint.address(of: head))
}

/// What a request of a client of S3 says of its content.
func s3Content(_ head: RequestHead, _ kind: DeclaredContent.Kind = .object) throws(ObjectError) -> DeclaredContent {
    try DeclaredContent(try RequestReader(head, .aws), kind)
}

/// The code of the error that `work` throws; `nil` if it throws none.
func s3Code<Success>(_ work: () throws(ObjectError) -> Success) -> ObjectErrorCode? {
    do throws(ObjectError) {
        _ = try work()
        return nil
    } catch {
        return error.code
    }
}

/// A request signed in its header, or in its query.
func s3Signed(
    _ method: String,
    _ target: String,
    _ credentials: SigningCredentials,
    fields: HTTPFields = [:],
    lifetime: Int64? = nil,
    region: String = "us-east-1",
    service: String = "s3",
    payload: SigV4Payload = .empty,
    at now: Date = noon
) throws -> RequestHead {
    var head = try s3Head(method, target, fields)
    var request = try SigningRequest(head)
    request.payload = payload
    let signer = SigV4Signer(credentials: credentials, region: region, service: service)
    if let lifetime {
        request.payload = .unsigned
        let query = SigningRequest.query(
            of: signer.presign(request, at: now.unixSeconds, lifetime: lifetime)
        )
        head.target = try RequestTarget(parsing: "\(head.target.rawPath)?\(query)")
    } else {
        for field in signer.sign(request, at: now.unixSeconds).fields {
            head.fields[try #require(FieldName(field.name))] = field.value
        }
    }
    return head
}

extension CredentialIssuer {
    /// What a client of a session signs with.
    func session(_ grant: ObjectGrant, for vendor: Vendor = .aws) throws -> SigningCredentials {
        let session = try mint(grant, for: vendor)
        return SigningCredentials(
            accessKeyID: session.accessKeyID,
            secretAccessKey: session.secretAccessKey.text,
            sessionToken: session.sessionToken
        )
    }
}
