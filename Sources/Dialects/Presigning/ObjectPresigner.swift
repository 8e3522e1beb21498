package import Foundation
package import ObjectGrants
package import Signing
package import UploadModel

/// Presigns requests for others to send, to the object endpoint or to a real store.
///
/// The signing secret is not revealed. For the object endpoint, the token in a URL allows only what the URL does: this
/// action on this key until its expiry. A URL is valid as long as its grant, at most `maximumLifetime`.
package struct ObjectPresigner: Sendable {
    /// In seconds; the maximum of all vendors.
    package static let maximumLifetime = SigV4Signer.maximumLifetime

    let vendor: Vendor
    let address: ObjectAddress
    let region: String
    private let source: Source

    private enum Source: Sendable {
        /// New credentials for each signature, valid only for what is signed.
        case issuer(CredentialIssuer)
        /// The credentials of an account.
        case account(SigningCredentials)
    }

    /// A presigner for the object endpoint, with the bucket in the path.
    ///
    /// - Parameters:
    ///   - issuer: Issues the credentials.
    ///   - vendor: The signature scheme; version 4 for OSS.
    ///   - origin: The URL of the endpoint, `https://host[:port]`, without the default port.
    ///   - region: The region that the endpoint requires in signatures.
    package init(issuer: CredentialIssuer, vendor: Vendor, origin: String, region: String) {
        source = .issuer(issuer)
        self.vendor = vendor
        address = ObjectAddress(origin: origin, isPathStyle: true)
        self.region = region
    }

    /// A presigner for a real store, where only the signed parts limit what a URL can do.
    ///
    /// - Parameters:
    ///   - credentials: Of the account. When they expire, so does what they signed.
    ///   - vendor: The signature scheme; version 4 for OSS.
    ///   - address: The address of the store.
    ///   - region: The region of the store.
    package init(credentials: SigningCredentials, vendor: Vendor, address: ObjectAddress, region: String) {
        source = .account(credentials)
        self.vendor = vendor
        self.address = address
        self.region = region
    }

    /// A URL for one request.
    ///
    /// - Parameters:
    ///   - operation: The operation to presign.
    ///   - name: The object.
    ///   - headers: Header fields to sign and to send.
    ///   - grant: The subject and expiry of the upload.
    ///   - now: The start of its validity.
    /// - Returns: A request for one key and one action; it can be sent repeatedly unless the grant is one-time.
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
    ///   - numbers: The part numbers.
    ///   - uploadID: The id of the upload, as clients know it.
    ///   - name: The object being uploaded.
    ///   - grant: The expiry of the URLs.
    ///   - now: The start of their validity.
    /// - Returns: One URL per part, in the same order.
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
        switch vendor {
        case .aws:
            let signer = SigV4Signer(credentials: credentials, region: region)
            return { request, _ in signer.presign(request, at: start, lifetime: lifetime) }
        case .aliyun:
            let signer = OSSSigner(credentials: credentials, scheme: .v4(region: region))
            return { request, name in
                let resource = OSSResource(bucket: name.bucket, key: name.key)
                return signer.presign(request, resource: resource, at: start, lifetime: lifetime)
            }
        case .tencent:
            let signer = COSSigner(credentials: credentials)
            let window = COSWindow(start: start, end: start + lifetime)
            return { request, _ in signer.presign(request, window: window) }
        }
    }

    /// Seconds.
    func lifetime(of grant: Grant, at now: Date) -> Int64 {
        min(max(grant.expiresAt.unixSeconds - now.unixSeconds, 1), Self.maximumLifetime)
    }

    /// Credentials for one signature.
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
            // Metadata is for creating an upload, and would only make the URL longer.
            upload.metadata = [:]
            upload.contentTypes = []
            upload.maximumBytes = nil
        }
        return try issuer.mint(
            ObjectGrant(upload: upload, bucket: bucket, keys: keys, actions: [action]),
            for: vendor
        ).signing
    }
}
