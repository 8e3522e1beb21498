internal import Foundation
internal import Signing

extension S3Authentication {
    /// A form of OSS or COS, and what it says of its signature.
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

    /// Finds out who signed the policy of a form for OSS or COS, and checks that the form meets it.
    ///
    /// - Parameters:
    ///   - signed: The form; nobody has vouched for it.
    ///   - bucket: That the request is for; `nil` for that of the credentials.
    ///   - now: The time.
    ///   - verify: Checks the signature with one of the holder's pairs.
    /// - Returns: Who signed it, the policy, with which the size of the file is to be compared, and the bucket.
    /// - Throws: `AccessDenied` for a form that does not meet its policy, and whatever else is wrong.
    func authenticate(
        _ signed: SignedForm,
        bucket: String?,
        at now: Date,
        _ verify: (SigningCredentials) throws(RequestSignatureFailure) -> Void
    ) async throws(S3Error) -> (caller: S3Caller, policy: PostPolicy, bucket: String) {
        let dialect = signed.form.dialect
        let (holder, _) = try await find(signed.accessKeyID, token: signed.token, at: now, grace: 0)
        try dialect.checking { () throws(RequestSignatureFailure) in
            try holder.credentials.verified { credentials throws(RequestSignatureFailure) in try verify(credentials) }
        }
        guard let bucket = bucket ?? holder.identity.bucket else {
            throw S3Error(.invalidBucketName, "The form must be sent to a bucket.")
        }
        do throws(PostPolicyProblem) {
            let policy = try PostPolicy(base64: signed.policy, dialect: dialect)
            try policy.check(signed.form, bucket: bucket, at: now)
            return (S3Caller(holder.identity, accessKeyID: signed.accessKeyID), policy, bucket)
        } catch {
            throw S3Error(policy: error)
        }
    }
}
