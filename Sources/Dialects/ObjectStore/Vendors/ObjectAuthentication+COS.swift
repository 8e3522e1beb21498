internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadModel

extension ObjectAuthentication {
    private static let verifierCOS = COSVerifier()

    /// Verifies the signature of a request to COS.
    ///
    /// The signature covers the path and what the client chooses; `checkCoverage` ensures that the rest changes
    /// nothing. The bucket is the first label of the host. Through the proxy of a Tencent VOD client it is the first
    /// label of the host in `Vod-Forward-Cos`, and `Host` names none. If it is in neither, it is the bucket of the
    /// credentials, or the first path segment.
    ///
    /// - Parameters:
    ///   - head: The head as sent.
    ///   - endpoint: The endpoint that received it.
    ///   - now: The current time.
    /// - Returns: The signer, and the bucket and key.
    /// - Throws: `AccessDenied` for an unsigned request, and the error for any other defect.
    func authenticateCOS(
        _ head: RequestHead,
        at endpoint: EndpointHosts,
        at now: Date
    ) async throws(ObjectError) -> (ObjectCaller, EndpointHosts.Address) {
        let request = try SigningRequest(parsing: head)
        let claim = try Vendor.tencent.checking { () throws(RequestSignatureFailure) in
            try Self.verifierCOS.claim(request, at: now.unixSeconds, skew: skew, lateness: Int64(grace))
        }
        let (holder, isInGrace) = try await find(claim.secretID, token: claim.token, at: now, grace: grace)
        if now.unixSeconds > claim.end {
            // SDKs sign until their credentials end, so what these may still complete has such a signature.
            guard isInGrace, case .grant(let grant) = holder.identity,
                claim.end >= grant.upload.expiresAt.unixSeconds
            else { throw ObjectError(signature: .expired, .tencent) }
        }
        try Vendor.tencent.checking { () throws(RequestSignatureFailure) in
            try holder.verified { credentials throws(RequestSignatureFailure) in
                try Self.verifierCOS.verify(claim, credentials: credentials)
            }
        }
        let addresses = try Self.addresses(of: head, at: endpoint, holder.identity.bucket, claim).map {
            $0.meant(to: .tencent)
        }
        let isObject = addresses.allSatisfy { !$0.key.isEmpty }
        try claim.checkCoverage(of: head, request.query, isObject: isObject)
        var address = addresses[0]
        if case .grant(let grant) = holder.identity {
            // Of two readings of the path, the one that the credentials cover.
            address =
                addresses.first { $0.bucket.map(grant.covers(bucket:)) ?? false && grant.covers($0.key) }
                ?? addresses.first { $0.bucket.map(grant.covers(bucket:)) ?? false } ?? address
        }
        return (ObjectCaller(holder.identity, accessKeyID: claim.secretID, isInGrace: isInGrace), address)
    }

    /// All possible addresses of a request that its signature covers, the most likely first.
    ///
    /// An unsigned host, as some Tencent VOD clients send it, names no bucket except that of the credentials. It does
    /// not show either whether the path contains the bucket.
    private static func addresses(
        of head: RequestHead,
        at endpoint: EndpointHosts,
        _ own: String?,
        _ claim: COSClaim
    ) throws(ObjectError) -> [EndpointHosts.Address] {
        let path = head.target.segments.joined(separator: "/")
        var named: String?
        let addresses: [EndpointHosts.Address]
        if let field = FieldName(COSVerifier.forwardedHost), let host = head.fields[field] {
            named = endpoint.bucket(inHost: host) ?? host.split(separator: ".").first.map { String($0) }
            guard let named else {
                throw .argument("Vod-Forward-Cos", host, "Vod-Forward-Cos must be <bucket>.cos.<region>.myqcloud.com.")
            }
            addresses = [EndpointHosts.Address(bucket: named, key: path)]
        } else {
            named = endpoint.bucket(inHost: head.target.authority ?? head.fields["Host"] ?? "")
            addresses = endpoint.addresses(of: head, bucket: own)
        }
        guard !claim.signedHeaders.contains("host") else { return addresses }
        let first = path.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false).first
        let isInDoubt = own != nil && first.map { String(Substring($0)) } == own
        guard named == nil || named == own, !isInDoubt else {
            throw ObjectError(
                .accessDenied,
                "The header host must be signed: it names the bucket of the request."
            )
        }
        return addresses
    }

    /// Authenticates the policy of a COS form ("POST Object", COS documentation) and checks that the form satisfies it.
    ///
    /// - Parameters:
    ///   - form: The fields before the file.
    ///   - bucket: The bucket of the request; `nil` for that of the credentials.
    ///   - now: The current time.
    /// - Returns: The signer, the policy (compare the file size with it), and the bucket.
    /// - Throws: `AccessDenied` for a form that violates its policy, and the error for any other defect.
    func authenticateCOS(
        _ form: PostForm,
        bucket: String?,
        at now: Date
    ) async throws(ObjectError) -> (caller: ObjectCaller, policy: PostPolicy, bucket: String) {
        let fields = form.fields.map { SigningField($0.name, $0.value) }
        let claim = try Vendor.tencent.checking { () throws(RequestSignatureFailure) in
            try Self.verifierCOS.claim(form: fields, at: now.unixSeconds, skew: skew)
        }
        let signed = SignedForm(form, by: claim.secretID, token: claim.token, policy: claim.policy)
        return try await authenticate(signed, bucket: bucket, at: now) { credentials throws(RequestSignatureFailure) in
            try Self.verifierCOS.verify(claim, credentials: credentials)
        }
    }
}
