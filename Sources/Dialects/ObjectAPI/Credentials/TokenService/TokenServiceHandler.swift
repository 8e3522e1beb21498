internal import Foundation
package import HTTPWire
internal import Signing
package import UploadCore

/// The security token services of all vendors, at the root of one endpoint: whoever may mint gets credentials that expire.
///
/// Served are AssumeRole, GetFederationToken and GetSessionToken of AWS, AssumeRole of Alibaba Cloud, AssumeRole and
/// GetFederationToken of Tencent Cloud, as their SDKs send them; which of them a call is for shows in the names of its fields and
/// parameters.
package struct TokenServiceHandler: Sendable {
    /// Looks up somebody who may mint; `nil` if the access key id is not known, or may not.
    package typealias MinterLookup = @Sendable (_ accessKeyID: String) async throws(S3Error) -> TokenMinter?

    private let issuer: CredentialIssuer
    private let clock: any WallClock
    private let minter: MinterLookup
    private let onMint: @Sendable () -> Void
    private let nonces = UsedNonces()

    /// - Parameters:
    ///   - issuer: Makes the credentials.
    ///   - clock: Tells the time.
    ///   - minter: Who may have them made.
    ///   - onMint: Told of each.
    package init(
        issuer: CredentialIssuer,
        clock: any WallClock,
        minter: @escaping MinterLookup,
        onMint: @escaping @Sendable () -> Void
    ) {
        self.issuer = issuer
        self.clock = clock
        self.minter = minter
        self.onMint = onMint
    }

    /// Whether a request is for it, and not for the object store of the same address.
    package static func isMeant(by head: RequestHead) -> Bool {
        guard head.target.rawPath == "/", head.method == .get || head.method == .post else { return false }
        if TokenCall.hasForm(head) { return true }
        let query = (try? head.target.queryItems())?.items.map(\.name) ?? []
        return vendor(of: head, parameters: query) != nil
    }

    package func respond(to request: Request) async -> Response {
        let call = await TokenCall(request, at: clock.now)
        var response =
            switch Self.vendor(of: call.head, parameters: call.parameters.map(\.name)) {
            case .oss: await respond(to: call, in: AliyunTokenDialect())
            case .cos: await respond(to: call, in: TencentTokenDialect())
            case .s3, nil: await respond(to: call, in: AWSTokenDialect())
            }
        response.fields["Cache-Control"] = "no-store"
        response.trace.route = "STS"
        return response
    }

    /// By what only one vendor has; nothing of these is in requests to an object store.
    private static func vendor(of head: RequestHead, parameters: [String]) -> ObjectDialect? {
        if TencentTokenDialect.isMeant(by: head) || parameters.contains("SecretId") { return .cos }
        if AliyunTokenDialect.isMeant(by: head) || parameters.contains("SignatureNonce") { return .oss }
        return nil
    }

    private func respond(to call: TokenCall, in dialect: some TokenDialect) async -> Response {
        do throws(TokenFailure) {
            if let failure = call.failure { throw failure }
            let minter = try await authenticate(call, in: dialect)
            let request = try self.request(call, in: dialect)
            let credentials = try mint(minter.grant(for: request, at: call.time), for: dialect.vendor)
            return dialect.response(to: request, credentials, call)
        } catch {
            let refusal = dialect.refusal(error)
            var response = dialect.response(refusal, call)
            response.trace.errorCode = refusal.code
            return response
        }
    }

    private func request(_ call: TokenCall, in dialect: some TokenDialect) throws(TokenFailure) -> TokenRequest {
        do throws(TokenRefusal) {
            return try dialect.request(call)
        } catch {
            throw .refused(error)
        }
    }

    private func mint(_ grant: ObjectGrant, for vendor: ObjectDialect) throws(TokenFailure) -> SessionCredentials {
        do throws(GrantTooLong) {
            let credentials = try issuer.mint(grant, for: vendor)
            onMint()
            return credentials
        } catch {
            throw .tooLong(error)
        }
    }

    /// Who signed the call.
    private func authenticate(
        _ call: TokenCall,
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
        do throws(S3Error) {
            found = try await minter(claim.accessKeyID)
        } catch {
            throw .unavailable(status: error.code.status.code, error.message)
        }
        guard let found else { throw .unknownKey }
        do throws(RequestSignatureFailure) {
            try found.credentials.first(verifying: claim.verify)
        } catch {
            throw .signature(error, stringToSign: claim.stringToSign)
        }
        if let nonce = claim.nonce { try use(nonce, of: claim.accessKeyID, at: call.time) }
        return found
    }

    private func use(_ nonce: TokenClaim.Nonce, of accessKeyID: String, at now: Date) throws(TokenFailure) {
        switch nonces.use(nonce.text, of: accessKeyID, until: nonce.expiry, at: now.unixSeconds) {
        case .new: break
        case .used: throw .refused(nonce.refusal)
        case .full: throw .unavailable(status: 503, "There are too many calls; ask again in some minutes.")
        }
    }
}
