import Foundation
import Signing
import UploadModel

@testable import ObjectStore

extension TokenMessage {
    /// How a call is signed.
    enum Scheme: Sendable {
        case aws
        /// Of Alibaba Cloud, in the query, in a form, or in the header.
        case rpcQuery, rpcForm, acs3
        /// Of Tencent Cloud, in the header, or in a form by HMAC-SHA256.
        case tc3, tc1
    }

    static let iam = #"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#
    static let ram = #"{"Version":"1","Statement":[{"Effect":"Allow","Action":"oss:*","Resource":"*"}]}"#
    static let cam = #"{"version":"2.0","statement":[{"effect":"allow","action":"cos:*","resource":"*"}]}"#

    /// What each vendor's call must have.
    private static func parameters(_ scheme: Scheme) -> [String: String] {
        switch scheme {
        case .aws:
            [
                "Action": "AssumeRole", "Version": "2011-06-15", "RoleSessionName": "alice",
                "RoleArn": "arn:aws:iam::123456789012:role/uploader",
            ]
        case .rpcQuery, .rpcForm, .acs3:
            [
                "Action": "AssumeRole", "Version": "2015-04-01", "RoleSessionName": "alice",
                "RoleArn": "acs:ram::1234567890123456:role/uploader",
            ]
        case .tc3, .tc1:
            ["Action": "GetFederationToken", "Version": "2018-08-13", "Name": "alice", "Policy": cam]
        }
    }

    /// A request signed at noon.
    ///
    /// - Parameters:
    ///   - scheme: By which it is signed.
    ///   - changes: Parameters that are others, or, where `nil`, are not there.
    ///   - credentials: Who signs.
    ///   - nonce: Of schemes that have one.
    ///   - shift: Seconds by which the clock of the signer is ahead.
    ///   - service: Of schemes that name one.
    ///   - rules: Of AWS: those of S3 put the hash of the content into a header.
    ///   - content: Of ACS3, which has its parameters in the query.
    /// - Returns: As a client sends it.
    /// - Throws: Nothing that is to be expected.
    static func signed(
        _ scheme: Scheme,
        _ changes: [String: String?] = [:],
        by credentials: SigningCredentials = TokenBench.administrator,
        nonce: String = "1001",
        shift: Int64 = 0,
        service: String = "sts",
        rules: SigV4Rules = .general,
        content: String = ""
    ) throws -> TokenMessage {
        var values = parameters(scheme)
        for (name, value) in changes { values[name] = value }
        let now = noon.unixSeconds + shift
        func fields(_ names: [String: String]) -> [SigningField] {
            names.sorted { $0.key < $1.key }.map { SigningField($0.key, $0.value) }
        }
        var request = SigningRequest(method: "POST", host: "sts.example.org", path: "/")
        let form = SigningField("Content-Type", "application/x-www-form-urlencoded")
        switch scheme {
        case .aws:
            let content = SigningRequest.query(of: fields(values))
            request.headers.append(form)
            request.payload = SigV4Payload(content: content.utf8)
            let signer = SigV4Signer(credentials: credentials, region: "us-east-1", service: service, rules: rules)
            return TokenMessage(request, adding: signer.sign(request, at: now).fields, content: content)
        case .rpcQuery, .rpcForm:
            request.method = scheme == .rpcQuery ? "GET" : "POST"
            request.query = fields(values)
            let signed = AliyunRPCSignature.sign(request, credentials: credentials, nonce: nonce, at: now)
            guard scheme == .rpcForm else {
                request.query = signed
                return TokenMessage(request)
            }
            request.query = []
            return TokenMessage(request, adding: [form], content: SigningRequest.query(of: signed))
        case .acs3:
            for (name, header) in [("Action", "x-acs-action"), ("Version", "x-acs-version")] {
                if let value = values.removeValue(forKey: name) { request.headers.append(SigningField(header, value)) }
            }
            request.query = fields(values)
            request.payload = SigV4Payload(content: content.utf8)
            let signed = ACS3Signature.sign(request, credentials: credentials, nonce: nonce, at: now)
            return TokenMessage(request, adding: signed, content: content)
        case .tc3:
            let action = fields(values).filter { ["Action", "Version"].contains($0.name) }
                .map { SigningField("X-TC-\($0.name)", $0.value) }
            for name in ["Action", "Version"] { values[name] = nil }
            let content = String(decoding: try JSONEncoder().encode(values), as: UTF8.self)
            request.headers.append(SigningField("Content-Type", "application/json"))
            request.payload = SigV4Payload(content: content.utf8)
            let signed = TC3Signer(credentials: credentials, service: service).sign(request, at: now)
            return TokenMessage(request, adding: action + signed, content: content)
        case .tc1:
            request.query = fields(values)
            let signed = TencentParameterSignature.sign(
                request,
                credentials: credentials,
                isSHA256: true,
                nonce: nonce,
                at: now
            )
            request.query = []
            return TokenMessage(request, adding: [form], content: SigningRequest.query(of: signed))
        }
    }

    private init(_ request: SigningRequest, adding fields: [SigningField] = [], content: String = "") {
        let query = SigningRequest.query(of: request.query)
        self.init(
            method: request.method,
            target: query.isEmpty ? "/" : "/?\(query)",
            fields: (request.headers + fields).map { ($0.name, $0.value) },
            content: content
        )
    }
}
