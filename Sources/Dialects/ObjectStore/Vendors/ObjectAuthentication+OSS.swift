internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadModel

extension ObjectAuthentication {
    private static let verifierOSS = OSSVerifier(region: nil) { HTTPDate.parseZoned($0) }

    /// Verifies the signature of a request to OSS, version 1 or 4.
    ///
    /// The signature covers bucket and key, wherever the URL has them. The bucket is in the host or in the path; if it
    /// is in neither, it is that of the credentials. Some clients write a space in the path as `+`.
    ///
    /// - Parameters:
    ///   - head: The head as sent.
    ///   - endpoint: The endpoint that received it.
    ///   - now: The current time.
    /// - Returns: The signer, and the bucket and key.
    /// - Throws: `AccessDenied` for an unsigned request, and the error for any other defect.
    func authenticateOSS(
        _ head: RequestHead,
        at endpoint: EndpointHosts,
        at now: Date
    ) async throws(ObjectError) -> (ObjectCaller, EndpointHosts.Address) {
        let request = try SigningRequest(parsing: head)
        let claim = try Vendor.aliyun.checking { () throws(RequestSignatureFailure) in
            try Self.verifierOSS.claimOfAnyClock(request, at: now.unixSeconds, skew: skew)
        }
        let (holder, isInGrace) = try await holder(of: claim, at: now)
        let resources = endpoint.addresses(of: head, bucket: holder.identity.bucket, plusIsSpace: true)
            .map { OSSResource(bucket: $0.bucket, key: $0.key) }
        do throws(RequestSignatureFailure) {
            let resource = try holder.verified { credentials throws(RequestSignatureFailure) in
                try Self.verifierOSS.verify(claim, resources: resources, credentials: credentials)
            }
            return (
                ObjectCaller(holder.identity, accessKeyID: claim.accessKeyID, isInGrace: isInGrace),
                EndpointHosts.Address(bucket: resource.bucket, key: resource.key)
            )
        } catch {
            var refusal = ObjectError(signature: error, .aliyun)
            if error == .wrongSignature, let first = resources.first {
                refusal.details += [
                    ObjectError.Detail("OSSAccessKeyId", claim.accessKeyID),
                    ObjectError.Detail("SignatureProvided", claim.signature),
                    ObjectError.Detail("StringToSign", claim.stringToSign(for: first)),
                ]
                if let canonical = claim.canonicalRequest(for: first) {
                    refusal.details.append(ObjectError.Detail("CanonicalRequest", canonical))
                }
            }
            throw refusal
        }
    }

    /// Looks up the owner of the credentials, and checks the time of the request.
    ///
    /// Not for uploads to ApsaraVideo VOD, whose credentials end soon: after `RequestTimeTooSkewed` its SDK for browsers repeats
    /// a request without its content.
    private func holder(of claim: OSSClaim, at now: Date) async throws(ObjectError) -> (KeyHolder, isInGrace: Bool) {
        let found = try await find(claim.accessKeyID, token: claim.token, at: now, grace: grace)
        guard !found.0.identity.isForVideoUpload, let date = claim.date, claim.isSkewed(at: now.unixSeconds, by: skew)
        else {
            return found
        }
        throw ObjectError(
            .requestTimeTooSkewed,
            details: ObjectError.skew(
                XMLWriter.timestamp(Date(timeIntervalSince1970: Double(date))),
                at: now,
                maximum: min(skew, OSSVerifier.maximumSkew)
            )
        )
    }

    /// Authenticates the policy of an OSS form ("PostObject", OSS documentation) and checks that the form satisfies it.
    ///
    /// - Parameters:
    ///   - form: The fields before the file.
    ///   - bucket: The bucket of the request; `nil` for that of the credentials.
    ///   - now: The current time.
    /// - Returns: The signer, the policy (compare the file size with it), and the bucket.
    /// - Throws: `AccessDenied` for a form that violates its policy, and the error for any other defect.
    func authenticateOSS(
        _ form: PostForm,
        bucket: String?,
        at now: Date
    ) async throws(ObjectError) -> (caller: ObjectCaller, policy: PostPolicy, bucket: String) {
        let fields = form.fields.map { SigningField($0.name, $0.value) }
        let claim = try Vendor.aliyun.checking { () throws(RequestSignatureFailure) in
            try Self.verifierOSS.claim(form: fields, at: now.unixSeconds, skew: skew)
        }
        let signed = SignedForm(form, by: claim.accessKeyID, token: claim.token, policy: claim.policy)
        return try await authenticate(signed, bucket: bucket, at: now) { credentials throws(RequestSignatureFailure) in
            try Self.verifierOSS.verify(claim, credentials: credentials)
        }
    }
}

extension ObjectCaller.Identity {
    fileprivate var isForVideoUpload: Bool {
        if case .grant(let grant) = self { grant.isForVideoUpload } else { false }
    }

    /// The only bucket that it covers, if there is just one.
    var bucket: String? {
        if case .grant(let grant) = self { grant.bucket } else { nil }
    }
}
