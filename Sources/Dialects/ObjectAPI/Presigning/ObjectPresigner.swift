package import Foundation
package import Signing
package import UploadCore

/// Signs requests that somebody else will send, to the object endpoint or to a real store.
///
/// The secret that it signs with nobody gets to see. For the object endpoint the token in a URL stands for no more than the URL
/// does: for this action on this key until then. A URL lasts as long as the grant that it is made for, at most
/// `maximumLifetime`.
package struct ObjectPresigner: Sendable {
    /// Seconds; the longest life of a URL at the vendors.
    package static let maximumLifetime = SigV4Signer.maximumLifetime

    let dialect: ObjectDialect
    let address: ObjectAddress
    let region: String
    private let source: Source

    private enum Source: Sendable {
        /// Credentials for nothing but what is signed.
        case issuer(CredentialIssuer)
        /// Those of an account.
        case account(SigningCredentials)
    }

    /// A presigner for the object endpoint, with the bucket in the path.
    ///
    /// - Parameters:
    ///   - issuer: Makes the credentials.
    ///   - dialect: How requests are signed; for OSS by version 4.
    ///   - origin: Where the endpoint is reached, `https://host[:port]`, without a port that goes without saying.
    ///   - region: That the endpoint wants signatures to be for.
    package init(issuer: CredentialIssuer, dialect: ObjectDialect, origin: String, region: String) {
        source = .issuer(issuer)
        self.dialect = dialect
        address = ObjectAddress(origin: origin, isPathStyle: true)
        self.region = region
    }

    /// A presigner for a real store, where only what the signature holds limits what a URL does.
    ///
    /// - Parameters:
    ///   - credentials: Of the account. Where they end, what they signed does then, too.
    ///   - dialect: How requests are signed; for OSS by version 4.
    ///   - address: Of the store.
    ///   - region: Of the store.
    package init(credentials: SigningCredentials, dialect: ObjectDialect, address: ObjectAddress, region: String) {
        source = .account(credentials)
        self.dialect = dialect
        self.address = address
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
        let (origin, path) = address.place(name.bucket, name.key)
        let request = SigningRequest(
            method: operation.method,
            host: ObjectAddress.host(of: origin),
            path: path,
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

    /// Credentials for this.
    func credentials(
        for action: ObjectAction,
        _ bucket: String,
        _ keys: ObjectGrant.Keys,
        under grant: Grant
    ) throws(GrantTooLong) -> SigningCredentials {
        let issuer: CredentialIssuer
        switch source {
        case .issuer(let found): issuer = found
        case .account(let credentials): return credentials
        }
        var upload = grant
        if !action.bringsContentType {
            // They are for whoever begins an upload, and would only make the URL longer.
            upload.metadata = [:]
            upload.contentTypes = []
            upload.maximumBytes = nil
        }
        return try issuer.mint(
            ObjectGrant(upload: upload, bucket: bucket, keys: keys, actions: [action]),
            for: dialect
        ).signing
    }
}
