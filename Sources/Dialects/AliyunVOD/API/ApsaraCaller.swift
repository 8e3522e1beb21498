internal import CloudCalls
internal import Foundation
internal import GatewayKit
internal import ObjectGateway
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Who called, authenticated, and what they may do.
struct ApsaraCaller: Sendable {
    enum Identity: Sendable {
        /// An API key, for an app's server.
        case key(APIKey)
        /// Session credentials, for an app.
        case session(ObjectGrant)
    }

    let identity: Identity

    /// The user of a session; an app's server acts for all its users.
    var subject: String? {
        switch identity {
        case .key(let key): key.limits.onlySubject
        case .session(let grant): grant.upload.subject
        }
    }

    /// The API key that calls, or that minted the session.
    var issuer: String? {
        switch identity {
        case .key(let key): key.id
        case .session(let grant): grant.upload.issuer
        }
    }

    /// When a session expires.
    var sessionEnd: Date? { if case .session(let grant) = identity { grant.upload.expiresAt } else { nil } }

    /// The app user who calls; `nil` for an app's server.
    var user: String? {
        switch identity {
        case .key(let key): key.user == nil ? nil : key.limits.onlySubject
        case .session(let grant): grant.upload.subject
        }
    }

    /// Whether the caller may perform an action in an application.
    func may(_ action: ApsaraAction, in application: String, at place: ApsaraPlace) -> Bool {
        switch identity {
        case .key(let key):
            return key.allows(action.scope) && place.allows(key.limits, application)
                && (!action.right.concernsAll || key.actsForAll)
        case .session(let grant):
            return grant.allows(action.right, bucket: place.bucket, key: ApsaraPlace.directory(application))
                && (!action.right.concernsAll || grant.upload.subject == nil)
        }
    }

    /// Whether the caller may perform an action in some application, as far as its scopes or policies tell.
    func mayAnywhere(_ action: ApsaraAction) -> Bool {
        switch identity {
        case .key(let key): key.allows(action.scope) && (!action.right.concernsAll || key.actsForAll)
        case .session(let grant):
            grant.mayAllow(action.right) && (!action.right.concernsAll || grant.upload.subject == nil)
        }
    }

    /// Whether the caller may see media of this user.
    func owns(_ subject: String?) -> Bool {
        switch identity {
        case .key(let key): key.limits.allows(subject: subject)
        case .session(let grant): grant.upload.subject == nil || grant.upload.subject.isSameSubject(as: subject)
        }
    }

    /// The users whose media the caller may see.
    var users: VisibleUsers {
        switch identity {
        case .key(let key): VisibleUsers(key.limits)
        case .session(let grant): grant.upload.subject.map { .only([$0]) } ?? .all
        }
    }

    /// The applications that the prefixes of a key name; `nil` if the caller may use others.
    var applications: Set<String>? {
        guard case .key(let key) = identity, !key.limits.prefixes.isEmpty else { return nil }
        let names = key.limits.prefixes.compactMap { $0.firstIndex(of: "/").map($0.prefix(upTo:)) }
        return names.count == key.limits.prefixes.count ? Set(names.map(String.init)) : nil
    }

    /// Whether the caller may begin media of this user, so that a key mints credentials for it.
    func mayBegin(for subject: String?, in application: String, at place: ApsaraPlace) -> Bool {
        guard case .key(let key) = identity else { return true }
        return key.refusal(minting: MintedRights(subject: subject, reach: place.reach(application))) == nil
    }

    /// The earlier of a time and the end of what the caller is handed: that of its session, or as `APIKey.lastExpiry`.
    func lastExpiry(_ time: Date, at now: Date) -> Date {
        switch identity {
        case .key(let key): key.lastExpiry(time, at: now)
        case .session(let grant): min(time, grant.upload.expiresAt)
        }
    }

    /// What the caller's nonces may take, so that it keeps others from calling nothing.
    fileprivate func nonceShares(_ accessKeyID: String, isTimeless: Bool) -> UsedNonces.Shares {
        let most: Int? = isTimeless ? 1000 : nil
        return switch identity {
        case .key(let key): key.actsForAll && !isTimeless ? .all : .key(key.id, most: most)
        case .session(let grant):
            .session(accessKeyID, of: grant.upload.subject, from: grant.upload.issuer, most: most)
        }
    }

    /// The least of the caller's own limit and another one, in bytes.
    func limit(_ wanted: Int64?) -> Int64? {
        let own =
            switch identity {
            case .key(let key): key.user?.maximumBytes
            case .session(let grant): grant.upload.maximumBytes
            }
        return [own, wanted].compactMap { $0 }.min()
    }
}

/// Authenticates calls: by the pair of an API key, or by session credentials.
struct ApsaraAuthentication: Sendable {
    let issuer: CredentialIssuer
    let revoked: RevocationList
    let pairs: KeyPairCache
    let nonces: UsedNonces
    /// Those of calls without a time: kept as long as a session, so they would fill the memory of the others.
    private let timelessNonces = UsedNonces()

    init(issuer: CredentialIssuer, revoked: RevocationList, pairs: KeyPairCache, nonces: UsedNonces) {
        self.issuer = issuer
        self.revoked = revoked
        self.pairs = pairs
        self.nonces = nonces
    }

    /// - Parameters:
    ///   - call: The call.
    ///   - action: What it asks for.
    /// - Returns: The caller, who may perform the action in some application.
    /// - Throws: `ApsaraError`, `.tooManyRequests` if key or user have sent too many calls.
    func caller(of call: CloudCall, for action: ApsaraAction) async throws(ApsaraError) -> ApsaraCaller {
        let claim: AliyunCalls.Claim
        do throws(RequestSignatureFailure) {
            claim = try AliyunCalls.claim(call)
        } catch {
            throw .refused(AliyunCallFailure(error, stringToSign: ""))
        }
        // What needs no signature needs no scope and no right.
        let scopes = action.isAlsoUnsigned ? Scope.allCases : [action.scope]
        let (caller, credentials, noteUse) = try await find(claim, scopes, at: call.time)
        do throws(RequestSignatureFailure) {
            try credentials.verified(by: claim.verify)
        } catch {
            throw .refused(AliyunCallFailure(error, stringToSign: claim.stringToSign))
        }
        noteUse()
        // An app's server acts for all its users.
        let user = caller.sessionEnd == nil ? nil : caller.subject
        try await core(try RequestMeter.identify(key: caller.issuer, subject: user))
        // Before the nonce is recorded: sessions for other things take none of that memory.
        guard action.isAlsoUnsigned || caller.mayAnywhere(action) else { throw ApsaraError.forbidden }
        let isTimeless = claim.nonce.expiry == nil
        let used = isTimeless ? timelessNonces : nonces
        let shares = caller.nonceShares(claim.accessKeyID, isTimeless: isTimeless)
        let end = claim.nonce.expiry ?? caller.sessionEnd?.unixSeconds ?? call.time.unixSeconds
        let now = call.time.unixSeconds
        switch used.use(claim.nonce.text, of: claim.accessKeyID, for: "vod", within: shares, until: end, at: now) {
        case .new: return caller
        case .used: throw ApsaraError.refused(.usedNonce)
        case .full: throw ApsaraError.refused(.tooManyNonces)
        }
    }

    private func find(
        _ claim: AliyunCalls.Claim,
        _ scopes: [Scope],
        at now: Date
    ) async throws(ApsaraError) -> (ApsaraCaller, [SigningCredentials], noteUse: @Sendable () -> Void) {
        guard let token = claim.token, !token.isEmpty else {
            for scope in scopes {
                guard let found = try await core(await pairs.pairs(claim.accessKeyID, scope)) else { continue }
                return (ApsaraCaller(identity: .key(found.key)), found.credentials, found.noteUse)
            }
            throw ApsaraError(
                404,
                "InvalidAccessKeyId.NotFound",
                "The access key is unknown, or is not allowed to call this action."
            )
        }
        let session: Session
        do throws(CredentialFailure) {
            session = try issuer.open(accessKeyID: claim.accessKeyID, token: token, at: now)
        } catch {
            throw .refused(AliyunCallFailure(error))
        }
        do throws(UploadError) {
            try await revoked.check(session.grant.upload)
        } catch {
            guard error.code == .unauthenticated else { throw .core(error) }
            throw ApsaraError.refused(.expiredToken)
        }
        let credentials = SigningCredentials(
            accessKeyID: claim.accessKeyID,
            secretAccessKey: session.secretAccessKey.text,
            sessionToken: token
        )
        return (ApsaraCaller(identity: .session(session.grant)), [credentials], {})
    }
}

extension AliyunCallFailure {
    /// SDKs in apps then ask for other credentials.
    fileprivate static let expiredToken = AliyunCallFailure(
        400,
        "InvalidSecurityToken.Expired",
        "The security token has expired, or was revoked; assume the role again."
    )

    fileprivate init(_ failure: CredentialFailure) {
        switch failure {
        case .expired: self = .expiredToken
        case .noToken, .invalidToken:
            self.init(400, "InvalidSecurityToken.Malformed", "The security token was not issued by this server.")
        case .otherAccessKeyID:
            self.init(
                400,
                "InvalidSecurityToken.MismatchWithAccessKey",
                "The token does not belong to the access key."
            )
        }
    }
}
