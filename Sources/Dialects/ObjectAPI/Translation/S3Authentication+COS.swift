internal import Foundation
internal import HTTPWire
internal import Signing
internal import UploadCore

extension S3Authentication {
    private static let verifierCOS = COSVerifier()

    /// Checks the signature of a request to COS.
    ///
    /// What is signed is the path, and beside it what the client chooses: `checkCoverage` sees to it that what it leaves out changes
    /// nothing. The bucket is the first label of the host; through the proxy of a client of Tencent VOD it is that of the host in
    /// `Vod-Forward-Cos`, and then `Host` names none. If it is in neither, it is that of the credentials, or the first of the path.
    ///
    /// - Parameters:
    ///   - head: As it was sent.
    ///   - endpoint: Where it came to.
    ///   - now: The time.
    /// - Returns: Who signed it, and for which bucket and key.
    /// - Throws: `AccessDenied` for a request without signature, and whatever else is wrong.
    func authenticateCOS(
        _ head: RequestHead,
        at endpoint: S3Endpoint,
        at now: Date
    ) async throws(S3Error) -> (S3Caller, S3Endpoint.Address) {
        let request = try SigningRequest(head)
        let claim = try ObjectDialect.cos.checking { () throws(RequestSignatureFailure) in
            try Self.verifierCOS.claim(request, at: now.unixSeconds)
        }
        let (holder, isInGrace) = try await find(claim.secretID, token: claim.token, at: now, grace: grace)
        try ObjectDialect.cos.checking { () throws(RequestSignatureFailure) in
            try holder.credentials.verified { credentials throws(RequestSignatureFailure) in
                try Self.verifierCOS.verify(claim, credentials: credentials)
            }
        }
        let addresses = try Self.addresses(of: head, at: endpoint, holder.identity.bucket, claim)
        try claim.checkCoverage(of: head, request.query)
        var address = addresses[0]
        if case .grant(let grant) = holder.identity {
            // Of two ways to read the path it is the one that the credentials are for.
            address =
                addresses.first { $0.bucket.map(grant.covers(bucket:)) ?? false && grant.covers($0.key) }
                ?? addresses.first { $0.bucket.map(grant.covers(bucket:)) ?? false } ?? address
        }
        return (S3Caller(holder.identity, accessKeyID: claim.secretID, isInGrace: isInGrace), address)
    }

    /// All that a request may be addressed to, the likeliest first, as far as its signature vouches for it.
    ///
    /// A host that is not signed, as by some clients of Tencent VOD, names no bucket but that of the credentials. Nor does it tell
    /// whether the bucket stands in the path.
    private static func addresses(
        of head: RequestHead,
        at endpoint: S3Endpoint,
        _ own: String?,
        _ claim: COSClaim
    ) throws(S3Error) -> [S3Endpoint.Address] {
        let path = head.target.segments.joined(separator: "/")
        var named: String?
        let addresses: [S3Endpoint.Address]
        if let field = FieldName(COSVerifier.forwardedHost), let host = head.fields[field] {
            named = endpoint.bucket(inHost: host) ?? host.split(separator: ".").first.map { String($0) }
            guard let named else {
                throw .argument("Vod-Forward-Cos", host, "Vod-Forward-Cos must be <bucket>.cos.<region>.myqcloud.com.")
            }
            addresses = [S3Endpoint.Address(bucket: named, key: path)]
        } else {
            named = endpoint.bucket(inHost: head.target.authority ?? head.fields["Host"] ?? "")
            addresses = endpoint.addresses(of: head, bucket: own)
        }
        guard !claim.signedHeaders.contains("host") else { return addresses }
        let first = path.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false).first
        let isInDoubt = own != nil && first.map { String(Substring($0)) } == own
        guard named == nil || named == own, !isInDoubt else {
            throw S3Error(.accessDenied, "The header host must be signed: it tells which bucket the request is for.")
        }
        return addresses
    }

    /// Finds out who signed the policy of a form for COS ("POST Object", COS documentation), and checks that the form meets it.
    ///
    /// - Parameters:
    ///   - form: The fields before the file.
    ///   - bucket: That the request is for; `nil` for that of the credentials.
    ///   - now: The time.
    /// - Returns: Who signed it, the policy, with which the size of the file is to be compared, and the bucket.
    /// - Throws: `AccessDenied` for a form that does not meet its policy, and whatever else is wrong.
    func authenticateCOS(
        _ form: PostForm,
        bucket: String?,
        at now: Date
    ) async throws(S3Error) -> (caller: S3Caller, policy: PostPolicy, bucket: String) {
        let fields = form.fields.map { SigningField($0.name, $0.value) }
        let claim = try ObjectDialect.cos.checking { () throws(RequestSignatureFailure) in
            try Self.verifierCOS.claim(form: fields, at: now.unixSeconds)
        }
        let signed = SignedForm(form, by: claim.secretID, token: claim.token, policy: claim.policy)
        return try await authenticate(signed, bucket: bucket, at: now) { credentials throws(RequestSignatureFailure) in
            try Self.verifierCOS.verify(claim, credentials: credentials)
        }
    }
}
