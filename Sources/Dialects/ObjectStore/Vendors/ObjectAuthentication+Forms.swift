internal import Foundation
internal import ObjectGrants
internal import Signing

extension ObjectAuthentication {
    /// A form of OSS or COS with its signature data.
    struct SignedForm {
        let form: PostForm
        let accessKeyID: String
        let token: String?
        let policy: String

        init(_ form: PostForm, by accessKeyID: String, token: String?, policy: String) {
            self.form = form
            self.accessKeyID = accessKeyID
            self.token = token
            self.policy = policy
        }
    }

    /// Authenticates the policy of an OSS or COS form and checks that the form satisfies it.
    ///
    /// - Parameters:
    ///   - signed: The form, not yet verified.
    ///   - bucket: The bucket of the request; `nil` for that of the credentials.
    ///   - now: The current time.
    ///   - verify: Verifies the signature with one of the owner's key pairs.
    /// - Returns: The signer, the policy (compare the file size with it), and the bucket.
    /// - Throws: `AccessDenied` for a form that violates its policy, and the error for any other defect.
    func authenticate(
        _ signed: SignedForm,
        bucket: String?,
        at now: Date,
        _ verify: (SigningCredentials) throws(RequestSignatureFailure) -> Void
    ) async throws(ObjectError) -> (caller: ObjectCaller, policy: PostPolicy, bucket: String) {
        let vendor = signed.form.vendor
        let (holder, _) = try await find(signed.accessKeyID, token: signed.token, at: now, grace: 0)
        try vendor.checking { () throws(RequestSignatureFailure) in
            try holder.verified { credentials throws(RequestSignatureFailure) in try verify(credentials) }
        }
        guard let bucket = bucket ?? holder.identity.bucket else {
            throw ObjectError(.invalidBucketName, "The form must be sent to a bucket.")
        }
        do throws(PostPolicyProblem) {
            let policy = try PostPolicy(base64: signed.policy, vendor: vendor)
            try policy.check(signed.form, bucket: bucket, at: now)
            return (ObjectCaller(holder.identity, accessKeyID: signed.accessKeyID), policy, bucket)
        } catch {
            throw ObjectError(policy: error)
        }
    }
}
