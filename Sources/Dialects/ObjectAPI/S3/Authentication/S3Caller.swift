internal import Foundation
package import Signing
internal import UploadCore

/// Who sends a request, as far as its signature tells.
package struct S3Caller: Sendable {
    package enum Identity: Sendable, Equatable {
        /// May do everything.
        case administrator
        case grant(ObjectGrant)
    }

    package let identity: Identity
    package let accessKeyID: String
    /// The credentials are over, but not for long: nothing but completing an upload is allowed.
    package let isInGrace: Bool
    /// What the request says of its content.
    package let payload: SigV4Payload
    /// From which the signatures of chunks go on; `nil` of a form.
    package let signature: SigV4Signature?
    /// `nil` of a form.
    package let claim: SigV4Claim?

    package init(
        _ identity: Identity,
        accessKeyID: String,
        isInGrace: Bool = false,
        payload: SigV4Payload = .unsigned,
        signature: SigV4Signature? = nil,
        claim: SigV4Claim? = nil
    ) {
        self.identity = identity
        self.accessKeyID = accessKeyID
        self.isInGrace = isInGrace
        self.payload = payload
        self.signature = signature
        self.claim = claim
    }

    /// `nil` of an administrator.
    package var grant: ObjectGrant? {
        if case .grant(let grant) = identity { grant } else { nil }
    }

    /// Checks that the caller may do what a request asks for, as far as its head tells.
    ///
    /// Of `DeleteObjects` and `PostObject` that is whether there may be such an object in this bucket: `check` is to be asked
    /// for each.
    ///
    /// - Parameters:
    ///   - operation: What is asked for.
    ///   - contentLength: Bytes of the object that the request brings; `nil` if it does not tell.
    ///   - contentType: Of the object that the request makes; `nil` if it does not tell.
    /// - Throws: `AccessDenied`; `ExpiredToken` in the time of grace.
    package func authorize(
        _ operation: S3Operation,
        contentLength: Int64? = nil,
        contentType: String? = nil
    ) throws(S3Error) {
        if isInGrace {
            guard case .completeMultipartUpload = operation else { throw S3Error(.expiredToken) }
        }
        switch operation.requirement(contentLength: contentLength, contentType: contentType) {
        case .anybody: break
        case .administrator:
            guard identity == .administrator else { throw S3Error(.accessDenied) }
        case .accesses(let accesses):
            for access in accesses { try check(access) }
        case .each(let action, let bucket):
            guard let grant else { return }
            guard grant.actions.contains(action), grant.covers(bucket: bucket) else {
                throw S3Error(.accessDenied)
            }
        }
    }

    /// Checks that the caller may do this.
    ///
    /// - Throws: `AccessDenied`.
    package func check(_ access: ObjectAccess) throws(S3Error) {
        guard let grant else { return }
        guard grant.allows(access) else { throw S3Error(.accessDenied) }
    }

    /// Whether a listing tells the caller of a key; for `Listing.page`.
    package func listing(_ key: String) -> ListingDecision {
        guard let grant else { return .include }
        if grant.covers(key) { return .include }
        // Behind the only key of a grant nothing is covered any more.
        if case .only(let only) = grant.keys, only.utf8.lexicographicallyPrecedes(key.utf8) { return .stop }
        return .skip
    }
}
