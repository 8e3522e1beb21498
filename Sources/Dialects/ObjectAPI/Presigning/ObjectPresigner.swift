package import Foundation
package import Signing
package import UploadCore

/// Signs requests to the object endpoint that somebody else will send, with the bucket in the path.
///
/// The secret that it signs with nobody gets to see, and the token in a URL stands for no more than the URL does: for this
/// action on this key until then. A URL lasts as long as the grant that it is made for, at most `maximumLifetime`.
package struct ObjectPresigner: Sendable {
    /// Seconds; the longest life of a URL at the vendors.
    package static let maximumLifetime = SigV4Signer.maximumLifetime

    let dialect: ObjectDialect
    /// `https://host[:port]`.
    let origin: String
    let region: String
    private let issuer: CredentialIssuer

    /// - Parameters:
    ///   - issuer: Makes the credentials.
    ///   - dialect: How requests are signed; for OSS by version 4.
    ///   - origin: Where the endpoint is reached, `https://host[:port]`, without a port that goes without saying.
    ///   - region: That the endpoint wants signatures to be for.
    package init(issuer: CredentialIssuer, dialect: ObjectDialect, origin: String, region: String) {
        self.issuer = issuer
        self.dialect = dialect
        self.origin = origin
        self.region = region
    }

    /// A URL for one request.
    ///
    /// - Parameters:
    ///   - operation: What it does.
    ///   - name: With which object.
    ///   - headers: To be signed, and sent with it.
    ///   - grant: Whose uploads it admits, and until when.
    ///   - now: From when it may be sent.
    /// - Returns: For one key and one action; it can be sent more than once, unless the grant is one-time.
    /// - Throws: If the grant does not fit into a token.
    package func request(
        _ operation: PresignedOperation,
        _ name: ObjectName,
        headers: [SigningField] = [],
        under grant: Grant,
        at now: Date
    ) throws(GrantTooLong) -> PresignedRequest {
        let keys = ObjectGrant.Keys.only(name.key)
        let credentials = try credentials(for: operation.action, name.bucket, keys, under: grant)
        return request(operation, name, headers, signer(credentials, grant, now))
    }

    /// URLs for parts of a multipart upload.
    ///
    /// - Parameters:
    ///   - numbers: Of the parts.
    ///   - uploadID: As clients name the upload.
    ///   - name: Of the object that it becomes.
    ///   - grant: Until when they may be sent.
    ///   - now: From when they may be sent.
    /// - Returns: As many, in the same order.
    /// - Throws: If the grant does not fit into a token.
    package func parts(
        _ numbers: [Int],
        of uploadID: String,
        _ name: ObjectName,
        under grant: Grant,
        at now: Date
    ) throws(GrantTooLong) -> [PresignedRequest] {
        let credentials = try credentials(for: .uploadPart, name.bucket, .only(name.key), under: grant)
        let signer = signer(credentials, grant, now)
        return numbers.map { request(.uploadPart($0, uploadID: uploadID), name, [], signer) }
    }

    // MARK: Signing

    private typealias Signer = (SigningRequest, ObjectName) -> [SigningField]

    private func request(
        _ operation: PresignedOperation,
        _ name: ObjectName,
        _ headers: [SigningField],
        _ signer: Signer
    ) -> PresignedRequest {
        let request = SigningRequest(
            method: operation.method,
            host: host,
            path: SigningRequest.path(of: "/\(name.bucket)/\(name.key)"),
            query: operation.query,
            headers: headers,
            payload: .unsigned
        )
        let query = SigningRequest.query(of: signer(request, name))
        return PresignedRequest(method: request.method, url: "\(origin)\(request.path)?\(query)", headers: headers)
    }

    private func signer(_ credentials: SigningCredentials, _ grant: Grant, _ now: Date) -> Signer {
        let start = now.unixSeconds
        let lifetime = lifetime(of: grant, at: now)
        switch dialect {
        case .s3:
            let signer = SigV4Signer(credentials: credentials, region: region)
            return { request, _ in signer.presign(request, at: start, lifetime: lifetime) }
        case .oss:
            let signer = OSSSigner(credentials: credentials, scheme: .v4(region: region))
            return { request, name in
                let resource = OSSResource(bucket: name.bucket, key: name.key)
                return signer.presign(request, resource: resource, at: start, lifetime: lifetime)
            }
        case .cos:
            let signer = COSSigner(credentials: credentials)
            let window = COSWindow(start: start, end: start + lifetime)
            return { request, _ in signer.presign(request, window: window) }
        }
    }

    /// Seconds.
    func lifetime(of grant: Grant, at now: Date) -> Int64 {
        min(max(grant.expiresAt.unixSeconds - now.unixSeconds, 1), Self.maximumLifetime)
    }

    private var host: String {
        origin.firstRange(of: "://").map { String(origin[$0.upperBound...]) } ?? origin
    }

    /// Credentials for nothing but this.
    func credentials(
        for action: ObjectAction,
        _ bucket: String,
        _ keys: ObjectGrant.Keys,
        under grant: Grant
    ) throws(GrantTooLong) -> SigningCredentials {
        var upload = grant
        if !action.bringsContentType {
            // They are for whoever begins an upload, and would only make the URL longer.
            upload.metadata = [:]
            upload.contentTypes = []
            upload.maximumBytes = nil
        }
        let session = try issuer.mint(
            ObjectGrant(upload: upload, bucket: bucket, keys: keys, actions: [action]),
            for: dialect
        )
        return SigningCredentials(
            accessKeyID: session.accessKeyID,
            secretAccessKey: session.secretAccessKey.text,
            sessionToken: session.sessionToken
        )
    }
}
