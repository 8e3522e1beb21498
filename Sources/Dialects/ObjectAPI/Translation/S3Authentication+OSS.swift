internal import Foundation
internal import HTTPWire
internal import Signing
internal import UploadCore

extension S3Authentication {
    private static let verifierOSS = OSSVerifier(region: nil) { HTTPDate.parse($0) }

    /// Checks the signature of a request to OSS, version 1 or 4.
    ///
    /// What is signed is the bucket and the key, wherever the URL has them: the bucket is in the host, in the path, or nowhere,
    /// and then it is that of the credentials. Some clients write `+` for a space of the path.
    ///
    /// - Parameters:
    ///   - head: As it was sent.
    ///   - endpoint: Where it came to.
    ///   - now: The time.
    /// - Returns: Who signed it, and for which bucket and key.
    /// - Throws: `AccessDenied` for a request without signature, and whatever else is wrong.
    func authenticateOSS(
        _ head: RequestHead,
        at endpoint: S3Endpoint,
        at now: Date
    ) async throws(S3Error) -> (S3Caller, S3Endpoint.Address) {
        let request = try SigningRequest(head)
        let claim = try ObjectDialect.oss.checking { () throws(RequestSignatureFailure) in
            try Self.verifierOSS.claim(request, at: now.unixSeconds)
        }
        let (holder, isInGrace) = try await find(claim.accessKeyID, token: claim.token, at: now, grace: grace)
        let resources = endpoint.addresses(of: head, bucket: holder.identity.bucket, plusIsSpace: true)
            .map { OSSResource(bucket: $0.bucket, key: $0.key) }
        do throws(RequestSignatureFailure) {
            let resource = try holder.credentials.verified { credentials throws(RequestSignatureFailure) in
                try Self.verifierOSS.verify(claim, resources: resources, credentials: credentials)
            }
            return (
                S3Caller(holder.identity, accessKeyID: claim.accessKeyID, isInGrace: isInGrace),
                S3Endpoint.Address(bucket: resource.bucket, key: resource.key)
            )
        } catch {
            var refusal = S3Error(signature: error, .oss)
            if error == .wrongSignature, let first = resources.first {
                refusal.details += [
                    S3Error.Detail("OSSAccessKeyId", claim.accessKeyID),
                    S3Error.Detail("SignatureProvided", claim.signature),
                    S3Error.Detail("StringToSign", claim.stringToSign(for: first)),
                ]
                if let canonical = claim.canonicalRequest(for: first) {
                    refusal.details.append(S3Error.Detail("CanonicalRequest", canonical))
                }
            }
            throw refusal
        }
    }

    /// Finds out who signed the policy of a form for OSS ("PostObject", OSS documentation), and checks that the form meets it.
    ///
    /// - Parameters:
    ///   - form: The fields before the file.
    ///   - bucket: That the request is for; `nil` for that of the credentials.
    ///   - now: The time.
    /// - Returns: Who signed it, the policy, with which the size of the file is to be compared, and the bucket.
    /// - Throws: `AccessDenied` for a form that does not meet its policy, and whatever else is wrong.
    func authenticateOSS(
        _ form: PostForm,
        bucket: String?,
        at now: Date
    ) async throws(S3Error) -> (caller: S3Caller, policy: PostPolicy, bucket: String) {
        let fields = form.fields.map { SigningField($0.name, $0.value) }
        let claim = try ObjectDialect.oss.checking { () throws(RequestSignatureFailure) in
            try Self.verifierOSS.claim(form: fields, at: now.unixSeconds)
        }
        let signed = SignedForm(form, by: claim.accessKeyID, token: claim.token, policy: claim.policy)
        return try await authenticate(signed, bucket: bucket, at: now) { credentials throws(RequestSignatureFailure) in
            try Self.verifierOSS.verify(claim, credentials: credentials)
        }
    }
}

extension S3Caller.Identity {
    /// The only bucket that it is for, if there is one.
    var bucket: String? {
        if case .grant(let grant) = self { grant.bucket } else { nil }
    }
}
