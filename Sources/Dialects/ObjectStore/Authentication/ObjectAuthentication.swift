internal import Bytes
package import Foundation
package import HTTPWire
package import ObjectGrants
package import Signing
package import UploadCore
internal import UploadModel

/// The owner of a key pair that does not belong to a session.
package struct KeyHolder: Sendable {
    /// The credentials to verify with; there are several while the master secret is being rotated.
    private let credentials: [SigningCredentials]
    package let identity: ObjectCaller.Identity
    private let noteUse: @Sendable () -> Void

    /// - Parameters:
    ///   - credentials: The credentials to verify with.
    ///   - identity: Who the owner is.
    ///   - noteUse: Called for each verified signature.
    package init(
        _ credentials: [SigningCredentials],
        _ identity: ObjectCaller.Identity,
        noteUse: @escaping @Sendable () -> Void = {}
    ) {
        self.credentials = credentials
        self.identity = identity
        self.noteUse = noteUse
    }

    /// The result of the first credentials that verify a signature.
    ///
    /// - Throws: The error for the first credentials if none do.
    func verified<Verified>(
        by verify: (SigningCredentials) throws(RequestSignatureFailure) -> Verified
    ) throws(RequestSignatureFailure) -> Verified {
        let verified = try credentials.verified(by: verify)
        noteUse()
        return verified
    }
}

/// Authenticates requests signed with AWS Signature Version 4.
package struct ObjectAuthentication: Sendable {
    let region: String?
    let issuer: CredentialIssuer
    private let verifier: SigV4Verifier
    let grace: TimeInterval
    /// Seconds.
    let skew: Int64
    private let revoked: RevocationList?
    private let holder: @Sendable (String) async throws(ObjectError) -> KeyHolder?

    /// - Parameters:
    ///   - region: Region that signatures must name; `nil` allows any.
    ///   - issuer: Derives the credentials of sessions.
    ///   - grace: Seconds after expiry during which credentials can still complete a multipart upload.
    ///   - skew: Seconds by which a client's clock may differ, if that is less than the vendor's limit.
    ///   - revoked: Revoked credentials; `nil` if none can be revoked.
    ///   - keys: Cache of derived keys.
    ///   - holder: Looks up an access key id that does not belong to a session; `nil` if it is unknown.
    package init(
        region: String?,
        issuer: CredentialIssuer,
        grace: TimeInterval = 0,
        skew: Int64 = .max,
        revoked: RevocationList? = nil,
        keys: SigV4Keys = SigV4Keys(),
        holder: @escaping @Sendable (String) async throws(ObjectError) -> KeyHolder?
    ) {
        self.region = region
        self.issuer = issuer
        self.grace = grace
        self.skew = skew
        self.revoked = revoked
        self.holder = holder
        verifier = SigV4Verifier(region: region, keys: keys)
    }

    /// Verifies the signature of a request.
    ///
    /// - Parameters:
    ///   - head: The head as sent, not an effective one. `Host` must be the one that the client signed.
    ///   - operation: The requested operation.
    ///   - now: The current time.
    /// - Returns: The signer.
    /// - Throws: `AccessDenied` for an unsigned request, and the error for any other defect.
    package func authenticate(
        _ head: RequestHead,
        for operation: ObjectOperation,
        at now: Date
    ) async throws(ObjectError) -> ObjectCaller {
        let request = try SigningRequest(parsing: head)
        let isQuery = request.query.contains { $0.name == "X-Amz-Algorithm" || $0.name == "X-Amz-Signature" }
        try Self.refuseOldSignatures(request)
        let claim: SigV4Claim
        do throws(RequestSignatureFailure) {
            claim = try verifier.claim(request, at: now.unixSeconds, skew: skew)
        } catch {
            var refusal = ObjectError(signature: error, isQuery: isQuery, region: region)
            if refusal.code == .requestTimeTooSkewed {
                refusal.details = ObjectError.skew(
                    head.fields["x-amz-date"] ?? head.fields["Date"] ?? "",
                    at: now,
                    maximum: min(skew, SigV4Verifier.maximumSkew)
                )
            }
            throw refusal
        }
        var grace: TimeInterval = 0
        if case .completeMultipartUpload = operation { grace = self.grace }
        let (holder, isInGrace) = try await find(claim.accessKeyID, token: claim.token, at: now, grace: grace)
        do throws(RequestSignatureFailure) {
            let signature = try holder.verified { credentials throws(RequestSignatureFailure) in
                try verifier.verify(claim, credentials: credentials)
            }
            return ObjectCaller(
                holder.identity,
                accessKeyID: claim.accessKeyID,
                isInGrace: isInGrace,
                payload: claim.payload,
                signature: signature,
                claim: claim
            )
        } catch {
            throw ObjectError(signature: error, isQuery: isQuery, region: region)
        }
    }

    /// Looks up the owner of an access key id, using the session token if there is one.
    func find(
        _ accessKeyID: String,
        token: String?,
        at now: Date,
        grace: TimeInterval
    ) async throws(ObjectError) -> (KeyHolder, isInGrace: Bool) {
        if let token {
            let session: Session
            do throws(CredentialFailure) {
                session = try issuer.open(accessKeyID: accessKeyID, token: token, at: now, grace: grace)
            } catch {
                throw ObjectError(credentials: error)
            }
            try await checkIssuer(of: session)
            let credentials = SigningCredentials(
                accessKeyID: accessKeyID,
                secretAccessKey: session.secretAccessKey.text,
                sessionToken: token
            )
            return (KeyHolder([credentials], .grant(session.grant)), session.isInGrace)
        }
        guard let found = try await holder(accessKeyID) else { throw ObjectError(.invalidAccessKeyID) }
        return (found, false)
    }

    private func checkIssuer(of session: Session) async throws(ObjectError) {
        guard let revoked else { return }
        do throws(UploadError) {
            try await revoked.check(session.grant.upload)
        } catch {
            guard error.code == .unauthenticated else { throw ObjectError(error, about: .object) }
            throw ObjectError(.expiredToken, "These credentials were revoked, or the API key that minted them was.")
        }
    }

    /// Rejects Signature Version 2, which only very old clients use.
    private static func refuseOldSignatures(_ request: SigningRequest) throws(ObjectError) {
        let isOld =
            request.query.contains { $0.name == "AWSAccessKeyId" }
            || request.headers.contains { $0.name.lowercasedASCII() == "authorization" && $0.value.hasPrefix("AWS ") }
        if isOld { throw .unsupportedSignature }
    }
}

extension SigningRequest {
    /// The signed parts of a request.
    ///
    /// - Throws: `InvalidURI`.
    init(parsing head: RequestHead) throws(ObjectError) {
        do throws(QueryItems.Failure) {
            self = try SigningRequest(head)
        } catch {
            throw ObjectError(unreadable: error)
        }
    }
}
