package import Foundation
package import HTTPWire
package import Signing
package import UploadCore

/// Whom a pair of keys belongs to that is not that of a session.
package struct S3KeyHolder: Sendable {
    /// The signature is by one of them, of which more than one is known while the master secret is rotated.
    package let credentials: [SigningCredentials]
    package let identity: S3Caller.Identity

    package init(_ credentials: [SigningCredentials], _ identity: S3Caller.Identity) {
        self.credentials = credentials
        self.identity = identity
    }
}

/// Finds out who signed a request by AWS Signature Version 4.
package struct S3Authentication: Sendable {
    let region: String?
    let issuer: CredentialIssuer
    private let verifier: SigV4Verifier
    let grace: TimeInterval
    private let revoked: RevocationList?
    private let holder: @Sendable (String) async throws(S3Error) -> S3KeyHolder?

    /// - Parameters:
    ///   - region: That signatures must be for; `nil` for any.
    ///   - issuer: Knows the credentials of sessions.
    ///   - grace: Seconds for which credentials that are over are still taken for completing a multipart upload.
    ///   - revoked: Whose credentials are over; `nil` if none are.
    ///   - keys: Where derived keys are kept.
    ///   - holder: Looks up an access key id that is not that of a session; `nil` if it is not known.
    package init(
        region: String?,
        issuer: CredentialIssuer,
        grace: TimeInterval = 0,
        revoked: RevocationList? = nil,
        keys: SigV4Keys = SigV4Keys(),
        holder: @escaping @Sendable (String) async throws(S3Error) -> S3KeyHolder?
    ) {
        self.region = region
        self.issuer = issuer
        self.grace = grace
        self.revoked = revoked
        self.holder = holder
        verifier = SigV4Verifier(region: region, keys: keys)
    }

    /// Checks the signature of a request.
    ///
    /// - Parameters:
    ///   - head: As it was sent; not an effective one. `Host` must be that which the client has signed.
    ///   - operation: What it asks for.
    ///   - now: The time.
    /// - Returns: Who signed it.
    /// - Throws: `AccessDenied` for a request without signature, and whatever else is wrong.
    package func authenticate(
        _ head: RequestHead,
        for operation: S3Operation,
        at now: Date
    ) async throws(S3Error) -> S3Caller {
        let request = try SigningRequest(head)
        let isQuery = request.query.contains { $0.name == "X-Amz-Algorithm" || $0.name == "X-Amz-Signature" }
        try Self.refuseOldSignatures(request)
        let claim: SigV4Claim
        do throws(RequestSignatureFailure) {
            claim = try verifier.claim(request, at: now.unixSeconds)
        } catch {
            throw S3Error(signature: error, isQuery: isQuery, region: region)
        }
        var grace: TimeInterval = 0
        if case .completeMultipartUpload = operation { grace = self.grace }
        let (holder, isInGrace) = try await find(claim.accessKeyID, token: claim.token, at: now, grace: grace)
        do throws(RequestSignatureFailure) {
            let signature = try holder.credentials.verified { credentials throws(RequestSignatureFailure) in
                try verifier.verify(claim, credentials: credentials)
            }
            return S3Caller(
                holder.identity,
                accessKeyID: claim.accessKeyID,
                isInGrace: isInGrace,
                payload: claim.payload,
                signature: signature,
                claim: claim
            )
        } catch {
            throw S3Error(signature: error, isQuery: isQuery, region: region)
        }
    }

    /// Whom an access key id belongs to, by a session token if there is one.
    func find(
        _ accessKeyID: String,
        token: String?,
        at now: Date,
        grace: TimeInterval
    ) async throws(S3Error) -> (S3KeyHolder, isInGrace: Bool) {
        if let token {
            let session: Session
            do throws(CredentialFailure) {
                session = try issuer.open(accessKeyID: accessKeyID, token: token, at: now, grace: grace)
            } catch {
                throw S3Error(credentials: error)
            }
            try await checkIssuer(of: session)
            let credentials = SigningCredentials(
                accessKeyID: accessKeyID,
                secretAccessKey: session.secretAccessKey.text,
                sessionToken: token
            )
            return (S3KeyHolder([credentials], .grant(session.grant)), session.isInGrace)
        }
        guard let found = try await holder(accessKeyID) else { throw S3Error(.invalidAccessKeyID) }
        return (found, false)
    }

    private func checkIssuer(of session: Session) async throws(S3Error) {
        guard let revoked else { return }
        do throws(UploadError) {
            try await revoked.check(session.grant.upload)
        } catch {
            guard error.code == .unauthenticated else { throw S3Error(error, about: .object) }
            throw S3Error(.expiredToken, "These credentials were revoked, or the API key that minted them was.")
        }
    }

    /// Signature Version 2, which nothing signs any more that is not very old.
    private static func refuseOldSignatures(_ request: SigningRequest) throws(S3Error) {
        let isOld =
            request.query.contains { $0.name == "AWSAccessKeyId" }
            || request.headers.contains { $0.name.lowercased() == "authorization" && $0.value.hasPrefix("AWS ") }
        if isOld { throw .unsupportedSignature }
    }
}

extension SigningRequest {
    /// What of a request is signed.
    ///
    /// - Throws: `InvalidURI`.
    package init(_ head: RequestHead) throws(S3Error) {
        let query: QueryItems
        do throws(QueryItems.Failure) {
            query = try head.target.queryItems()
        } catch {
            throw S3Error(.invalidURI, "The URI can not be parsed: \(error.reason).")
        }
        // The authority of the target stands in for Host (RFC 9112 §3.2.2).
        let authority = head.target.authority
        let headers = head.fields.entries.indices.compactMap { index -> SigningField? in
            let name = head.fields.name(at: index)
            let value = head.fields.value(at: index)
            switch name.lowercased() {
            case "host" where authority != nil: return nil
            // As clients without credentials send it.
            case "authorization" where value.isEmpty: return nil
            default: return SigningField(name, value)
            }
        }
        self.init(
            method: head.method.rawValue,
            host: authority,
            path: head.target.rawPath,
            query: query.items.map { SigningField($0.name, $0.value) },
            headers: headers,
            date: head.fields["Date"].flatMap { HTTPDate.parse($0) }
        )
    }
}
