package import CloudCalls
internal import Foundation
package import HTTPWire
package import ObjectGrants
internal import Signing
internal import UploadCore
package import UploadModel

/// The security token services of all vendors, at the root of one endpoint: callers who may mint get temporary
/// credentials.
///
/// It serves AssumeRole, AssumeRoleWithWebIdentity, GetFederationToken and GetSessionToken of AWS, AssumeRole of
/// Alibaba Cloud, and AssumeRole and GetFederationToken of Tencent Cloud, as their SDKs send them. The names of fields
/// and parameters show the vendor.
package struct TokenServiceHandler: Sendable {
    /// Looks up a minter; `nil` if the access key id is unknown or must not mint.
    package typealias MinterLookup = @Sendable (_ accessKeyID: String) async throws(UploadError) -> TokenMinter?

    private let issuer: CredentialIssuer
    private let clock: any WallClock
    private let minter: MinterLookup
    private let identities: (any WebIdentityVerifier)?
    private let onMint: @Sendable () -> Void
    private let nonces: UsedNonces
    private let skew: Int64

    /// - Parameters:
    ///   - issuer: Issues the credentials.
    ///   - clock: The current time.
    ///   - minter: Looks up callers who may mint.
    ///   - skew: Seconds by which a caller's clock may differ, if that is less than the vendor's limit.
    ///   - identities: Verifies identity tokens, whose users need no signature; `nil` accepts none.
    ///   - nonces: Those of all calls that have a time.
    ///   - onMint: Called for each minted session.
    package init(
        issuer: CredentialIssuer,
        clock: any WallClock,
        minter: @escaping MinterLookup,
        skew: Int64 = .max,
        identities: (any WebIdentityVerifier)? = nil,
        nonces: UsedNonces = UsedNonces(),
        onMint: @escaping @Sendable () -> Void
    ) {
        self.issuer = issuer
        self.clock = clock
        self.minter = minter
        self.skew = skew
        self.identities = identities
        self.nonces = nonces
        self.onMint = onMint
    }

    /// Whether a request is for this service, and not for the object store at the same address.
    package static func isMeant(by head: RequestHead) -> Bool {
        guard head.target.rawPath == "/", head.method == .get || head.method == .post else { return false }
        let query = (try? head.target.queryItems())?.items.map(\.name) ?? []
        // The SDKs in C for OSS and COS delete many objects so: curl calls all content of a POST a form.
        if head.method == .post, query.contains("delete") { return false }
        if CloudCall.hasForm(head) { return true }
        return vendor(of: head, parameters: query) != nil
    }

    package func respond(to request: Request) async -> Response {
        let call = await CloudCall(request, at: clock.now, skew: skew)
        var response =
            switch Self.vendor(of: call.head, parameters: call.parameters.map(\.name)) {
            case .aliyun: await respond(to: call, in: AliyunTokenDialect())
            case .tencent: await respond(to: call, in: TencentTokenDialect())
            case .aws, nil:
                AWSTokenDialect.bringsIdentity(call)
                    ? await respond(toIdentityIn: call) : await respond(to: call, in: AWSTokenDialect())
            }
        Self.finish(&response)
        return response
    }

    private static func finish(_ response: inout Response) {
        response.fields["Cache-Control"] = "no-store"
        response.trace.route = "STS"
        response.trace.dialect = .sts
    }

    /// The response to a request that is refused before its content is read.
    ///
    /// Status 503: the vendors' SDKs send such a request again.
    package func refuse(_ error: UploadError, _ request: Request) -> Response {
        let call = CloudCall(head: request, at: clock.now, skew: skew)
        let failure = TokenFailure.limited(error)
        var response =
            switch Self.vendor(of: call.head, parameters: call.parameters.map(\.name)) {
            case .aliyun: Self.response(failure, call, in: AliyunTokenDialect())
            case .tencent: Self.response(failure, call, in: TencentTokenDialect())
            case .aws, nil: Self.response(failure, call, in: AWSTokenDialect())
            }
        Self.finish(&response)
        return response
    }

    private static func response(_ failure: TokenFailure, _ call: CloudCall, in dialect: some TokenDialect) -> Response
    {
        let refusal = dialect.refusal(failure)
        var response = dialect.response(refusal, call)
        response.trace.errorCode = refusal.code
        if case .unavailable(_, _, let wait?) = failure { response.fields["Retry-After"] = wait }
        return response
    }

    /// Detects the vendor by what only its requests have; requests to object stores have none of it.
    private static func vendor(of head: RequestHead, parameters: [String]) -> Vendor? {
        if TencentTokenDialect.isMeant(by: head) || parameters.contains("SecretId") { return .tencent }
        if AliyunCalls.isMeant(by: head) || parameters.contains("SignatureNonce") { return .aliyun }
        return nil
    }

    private func respond(to call: CloudCall, in dialect: some TokenDialect) async -> Response {
        await responding(call, in: dialect) { () async throws(TokenFailure) in
            let minter = try await authenticate(call, in: dialect)
            let request = try self.request(call, in: dialect)
            guard let grant = minter.grant(for: request, at: call.time) else { throw .otherSubject }
            let credentials = try mint(grant, for: dialect.vendor)
            Self.note(grant.upload, .session)
            return dialect.response(to: request, credentials, call)
        }
    }

    /// AssumeRoleWithWebIdentity: a valid token needs no key.
    ///
    /// A signature is ignored, as at AWS.
    private func respond(toIdentityIn call: CloudCall) async -> Response {
        let dialect = AWSTokenDialect()
        return await responding(call, in: dialect) { () async throws(TokenFailure) in
            let request = try self.request(call, in: dialect)
            let identity: WebIdentity
            do throws(WebIdentityFailure) {
                identity = try await self.identity(for: request, at: call.time)
            } catch {
                throw .refused(AWSTokenDialect.refusal(error))
            }
            let grant = request.policy.map { identity.grant.narrowed(by: $0) } ?? identity.grant
            try Self.identify(grant.upload.issuer, grant.upload.subject)
            let credentials = try mint(grant, for: dialect.vendor)
            Self.note(grant.upload, .user)
            return dialect.response(to: request, credentials, for: identity, call)
        }
    }

    /// Counts the request for its limits.
    private static func identify(_ key: String?, _ subject: String?) throws(TokenFailure) {
        do throws(UploadError) {
            try RequestMeter.identify(key: key, subject: subject)
        } catch {
            throw .limited(error)
        }
    }

    /// Notes for the logs who got credentials.
    private static func note(_ grant: Grant, _ kind: SignInNote.Kind) {
        RequestMeter.note(key: grant.issuer, subject: grant.subject)
        if let issuer = grant.issuer { SignInNote.note(kind, issuer: issuer, subject: grant.subject) }
    }

    private func identity(for request: TokenRequest, at now: Date) async throws(WebIdentityFailure) -> WebIdentity {
        guard let identities, case .assumeRoleWithWebIdentity(_, let token) = request.operation else {
            throw .noProvider
        }
        return try await identities.identity(in: token, lifetime: Double(request.seconds), at: now)
    }

    private func responding(
        _ call: CloudCall,
        in dialect: some TokenDialect,
        _ body: () async throws(TokenFailure) -> Response
    ) async -> Response {
        do throws(TokenFailure) {
            if let problem = call.problem { throw .unreadable(problem) }
            return try await body()
        } catch {
            return Self.response(error, call, in: dialect)
        }
    }

    private func request(_ call: CloudCall, in dialect: some TokenDialect) throws(TokenFailure) -> TokenRequest {
        do throws(TokenRefusal) {
            return try dialect.request(call)
        } catch {
            throw .refused(error)
        }
    }

    private func mint(_ grant: ObjectGrant, for vendor: Vendor) throws(TokenFailure) -> SessionCredentials {
        do throws(GrantTooLong) {
            let credentials = try issuer.mint(grant, for: vendor)
            onMint()
            return credentials
        } catch {
            throw .tooLong(error)
        }
    }

    /// Authenticates the caller.
    private func authenticate(
        _ call: CloudCall,
        in dialect: some TokenDialect
    ) async throws(TokenFailure) -> TokenMinter {
        let claim: TokenClaim
        do throws(RequestSignatureFailure) {
            claim = try dialect.claim(call)
        } catch {
            throw .signature(error)
        }
        guard claim.token == nil else { throw .fromSession }
        let found: TokenMinter?
        do throws(UploadError) {
            found = try await minter(claim.accessKeyID)
        } catch {
            guard error.code == .storageFailure else { throw .unavailable(status: 503, error.message) }
            throw .unavailable(status: 500, "An internal error occurred; try again.")
        }
        guard let found else { throw .unknownKey }
        do throws(RequestSignatureFailure) {
            try found.verify(by: claim.verify)
        } catch {
            throw .signature(error, stringToSign: claim.stringToSign)
        }
        try Self.identify(found.issuer, nil)
        if let nonce = claim.nonce { try use(nonce, of: claim.accessKeyID, within: found.nonceShares, at: call.time) }
        return found
    }

    private func use(
        _ nonce: TokenClaim.Nonce,
        of accessKeyID: String,
        within shares: UsedNonces.Shares,
        at now: Date
    ) throws(TokenFailure) {
        let end = nonce.expiry
        switch nonces.use(nonce.text, of: accessKeyID, for: "sts", within: shares, until: end, at: now.unixSeconds) {
        case .new: break
        case .used: throw .refused(nonce.refusal)
        case .full: throw .unavailable(status: 503, "There are too many calls; try again in some minutes.")
        }
    }
}
