internal import Bytes
internal import Digests
package import Foundation
internal import HTTPWire
package import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

extension ObjectAuthentication {
    /// Authenticates the policy of a form upload and checks that the form satisfies it.
    ///
    /// See "Authenticating Requests in Browser-Based Uploads Using POST", Amazon S3 API Reference.
    ///
    /// - Parameters:
    ///   - form: The fields before the file.
    ///   - bucket: The bucket of the request; required.
    ///   - now: The current time.
    /// - Returns: The signer, the policy (compare the file size with it), and the bucket.
    /// - Throws: `AccessDenied` for an unsigned form or one that violates its policy, and the error for any other
    ///   defect.
    package func authenticate(
        _ form: PostForm,
        bucket: String?,
        at now: Date
    ) async throws(ObjectError) -> (caller: ObjectCaller, policy: PostPolicy, bucket: String) {
        guard let bucket else { throw ObjectError(.methodNotAllowed, fields: ["Allow": "GET"]) }
        guard let policy = form["policy"] else { throw ObjectError(.accessDenied) }
        guard form["signature"] == nil, form["awsaccesskeyid"] == nil else { throw .unsupportedSignature }
        let names = ["x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"]
        var values: [String] = []
        for name in names {
            guard let value = form[name] else {
                throw .argument(name, nil, "Bucket POST must contain a field named '\(name)'.")
            }
            values.append(value)
        }
        guard values[0] == "AWS4-HMAC-SHA256" else { throw .unsupportedSignature }
        let credential = try Self.credential(values[1], region: region)
        guard values[2].utf8.count == 16, values[2].hasPrefix(credential.day + "T") else {
            throw .argument(names[2], values[2], "The date of the form must be of the day that the credential names.")
        }
        guard let date = SigningTime.parse(values[2]) else {
            throw .argument(names[2], values[2], "The date of the form must look like 20260131T235959Z.")
        }
        // A form is sent later than it was signed, and has an expiration.
        guard date <= now.unixSeconds + min(skew, SigV4Verifier.maximumSkew) else {
            throw ObjectError(
                .requestTimeTooSkewed,
                details: ObjectError.skew(values[2], at: now, maximum: min(skew, SigV4Verifier.maximumSkew))
            )
        }
        let (holder, _) = try await find(
            credential.accessKeyID,
            token: form["x-amz-security-token"],
            at: now,
            grace: 0
        )
        do throws(RequestSignatureFailure) {
            try holder.verified { credentials throws(RequestSignatureFailure) in
                var key = Array("AWS4\(credentials.secretAccessKey)".utf8)
                for part in [credential.day, credential.region, "s3", "aws4_request"] {
                    key = HMAC.code(.sha256, key: key, message: Array(part.utf8))
                }
                let signature = Hexadecimal.encode(HMAC.code(.sha256, key: key, message: Array(policy.utf8)))
                guard constantTimeEquals(signature.utf8, values[3].utf8) else { throw .wrongSignature }
            }
        } catch {
            throw ObjectError(.signatureDoesNotMatch)
        }

        // Parse the policy only now that its signature is verified.
        let parsed: PostPolicy
        do throws(PostPolicyProblem) {
            parsed = try PostPolicy(base64: policy, vendor: .aws)
            try parsed.check(form, bucket: bucket, at: now)
        } catch {
            throw ObjectError(policy: error)
        }
        return (ObjectCaller(holder.identity, accessKeyID: credential.accessKeyID), parsed, bucket)
    }

    /// `id/day/region/s3/aws4_request`.
    private static func credential(
        _ text: String,
        region: String?
    ) throws(ObjectError) -> (accessKeyID: String, day: String, region: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            String(Substring($0))
        }
        guard parts.count >= 5, parts[parts.count - 1] == "aws4_request", parts[parts.count - 2] == "s3" else {
            throw .argument("x-amz-credential", nil, "The credential must be <id>/YYYYMMDD/<region>/s3/aws4_request.")
        }
        let named = parts[parts.count - 3]
        guard region == nil || region == named else {
            throw ObjectError(signature: .wrongRegion, isQuery: false, region: region)
        }
        let accessKeyID = parts.dropLast(4).joined(separator: "/")
        guard !accessKeyID.isEmpty else { throw ObjectError(.invalidAccessKeyID) }
        return (accessKeyID, parts[parts.count - 4], named)
    }
}

extension ObjectError {
    package init(policy problem: PostPolicyProblem) {
        switch problem {
        case .malformed: self.init(.invalidPolicyDocument, problem.message)
        case .expired, .conditionFailed, .fieldNotCovered: self.init(.accessDenied, problem.message)
        case .repeatedField, .unfitFileName: self.init(.malformedPOSTRequest, problem.message)
        case .tooSmall(let minimum):
            self.init(.entityTooSmall, problem.message, details: [Detail("MinSizeAllowed", String(minimum))])
        case .tooLarge(let maximum):
            self.init(.entityTooLarge, problem.message, details: [Detail("MaxSizeAllowed", String(maximum))])
        }
    }
}
