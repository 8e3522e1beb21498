internal import Bytes
internal import Digests
internal import Foundation
internal import RESTKit
internal import Signing
internal import UploadModel

/// An issuer whose tokens admit app users.
struct AppUserIssuer: Sendable {
    enum Keys: Sendable {
        case fetched(IdentityKeys)
        case fixed(JSONWebKeySet)
    }

    let settings: UserIssuerSettings
    let rules: IdentityTokenRules
    let keys: Keys

    init(_ settings: UserIssuerSettings, keys: Keys) {
        self.settings = settings
        self.keys = keys
        rules = IdentityTokenRules(
            issuer: settings.issuer,
            audiences: settings.audiences,
            algorithms: settings.algorithms,
            leeway: settings.leeway,
            maximumLifetime: settings.maximumLifetime
        )
    }

    /// - Throws: As `AppUserTokens.key`.
    func key(for token: JSONWebToken, at now: Date) async throws(UploadError) -> APIKey {
        let validity: IdentityTokenRules.Validity
        let known = try await keys(for: token)
        do throws(IdentityTokenRules.Failure) {
            validity = try rules.validity(of: token, keys: known, at: now.unixSeconds)
        } catch {
            switch error {
            case .invalid(let reason): throw .invalidCredential("This token \(reason).")
            case .expired: throw .invalidCredential("This token has expired; get a new one from its issuer.")
            }
        }
        guard let issuedAt = validity.issuedAt else {
            throw .invalidCredential("This token has no time of issue (iat).")
        }
        return APIKey(
            id: IdentityName.text(rules.issuer, audience: validity.audience),
            name: rules.issuer,
            scopes: scopes(token.claims),
            createdAt: Date(timeIntervalSince1970: issuedAt),
            // The leeway is over then, too.
            expiresAt: Date(timeIntervalSince1970: validity.expiresAt + Double(settings.leeway)),
            digest: [],
            limits: KeyLimits(subjects: [try subject(token.claims)]),
            user: AppUser(
                issuedAt: Date(timeIntervalSince1970: issuedAt),
                maximumBytes: try maximumBytes(token.claims),
                contentTypes: try contentTypes(token.claims),
                metadata: try metadata(token.claims),
                mintedLifetime: Double(settings.mintedLifetime)
            )
        )
    }

    private func keys(for token: JSONWebToken) async throws(UploadError) -> [JSONWebKey] {
        switch keys {
        case .fixed(let keys): return keys.keys(for: token)
        case .fetched(let keys):
            do throws(IdentityKeys.Unavailable) {
                return try await keys.keys(for: token)
            } catch {
                throw UploadError(
                    .unavailable,
                    "The keys of the issuer of this token are not available: \(error.reason). Try again."
                )
            }
        }
    }

    // MARK: Claims

    private func subject(_ claims: JSONMembers) throws(UploadError) -> String {
        let name: String? =
            switch settings.subjectClaim.value(in: claims) {
            case .string(let text)?: text
            case .integer(let number)?: String(number)
            default: nil
            }
        let subject = (settings.subjectPrefix ?? "") + (name ?? "")
        // As a limit of a key, a trailing asterisk would stand for other users.
        guard name?.isEmpty == false, SubjectText.isValid(subject), !subject.hasSuffix("*") else {
            throw .invalidCredential(
                "This token does not name its user: the claim \(settings.subjectClaim.text) "
                    + "\(SubjectText.rule), and no * at the end."
            )
        }
        return subject
    }

    private func scopes(_ claims: JSONMembers) -> Set<Scope> {
        guard let claim = settings.scopeClaim else { return settings.scopes }
        let words = Set((claim.words(in: claims) ?? []).map { ExactText($0) })
        return settings.scopes.filter { words.contains(ExactText(settings.scopePrefix + $0.rawValue)) }
    }

    private func maximumBytes(_ claims: JSONMembers) throws(UploadError) -> Int64? {
        guard let claim = settings.maximumBytesClaim else { return settings.maximumBytes }
        guard !claim.isObstructed(in: claims) else { throw Self.invalid(claim, "where this gateway looks for it") }
        guard let value = claim.value(in: claims) else { return settings.maximumBytes }
        guard case .integer(let bytes) = value, bytes >= 0 else { throw Self.invalid(claim, "a number of bytes") }
        return min(bytes, settings.maximumBytes ?? bytes)
    }

    private func contentTypes(_ claims: JSONMembers) throws(UploadError) -> [String] {
        guard let claim = settings.contentTypesClaim else { return settings.contentTypes }
        guard !claim.isObstructed(in: claims) else { throw Self.invalid(claim, "where this gateway looks for it") }
        guard claim.value(in: claims) != nil else { return settings.contentTypes }
        guard let types = claim.words(in: claims), (1...32).contains(types.count),
            types.allSatisfy(MediaTypeText.isPattern)
        else { throw Self.invalid(claim, "a list of media types") }
        guard let common = MediaTypePattern.common(settings.contentTypes, types) else {
            throw Self.invalid(claim, "a list with content types that its issuer may allow")
        }
        return common
    }

    private func metadata(_ claims: JSONMembers) throws(UploadError) -> [String: String] {
        var metadata: [String: String] = [:]
        for (name, claim) in settings.metadata {
            guard claim.value(in: claims) != nil else {
                // The name belongs to the issuer: without the claim no user may fill it in.
                metadata[name] = ""
                continue
            }
            guard let text = claim.text(in: claims), text.utf8.count <= Self.maximumMetadataBytes else {
                throw Self.invalid(claim, "a text of at most \(Self.maximumMetadataBytes) bytes, or a number")
            }
            metadata[name] = text
        }
        return metadata
    }

    /// Of one claim.
    private static let maximumMetadataBytes = 1024

    private static func invalid(_ claim: ClaimName, _ rule: String) -> UploadError {
        .invalidCredential("This token is not valid here: its claim \(claim.text) is not \(rule).")
    }
}

/// The name that an issuer and an audience have in place of an API key.
///
/// What was admitted or minted contains it, so that it ends when either is no longer trusted.
enum IdentityName {
    private static let prefix = "identity_"

    static func text(_ issuer: String, audience: String) -> String {
        prefix + Hexadecimal.encode(Digest.hash("\(issuer)\n\(audience)".utf8, .sha256).prefix(8))
    }

    static func isMeant(by id: String) -> Bool { id.hasPrefix(prefix) }
}
