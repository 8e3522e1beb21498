internal import Bytes
internal import Foundation
package import ObjectGrants
package import Signing
internal import UploadCore
package import UploadModel

/// The sender of a request, according to its signature.
package struct ObjectCaller: Sendable {
    package enum Identity: Sendable, Equatable {
        /// Has full access.
        case administrator
        case grant(ObjectGrant)
    }

    package let identity: Identity
    package let accessKeyID: String
    /// Whether the credentials expired recently: only completing an upload is still allowed.
    package let isInGrace: Bool
    /// The signature's statement about the content.
    package let payload: SigV4Payload
    /// The seed for chunk signatures; `nil` for a form.
    package let signature: SigV4Signature?
    /// `nil` for a form.
    package let claim: SigV4Claim?
    /// Whether it has no credential.
    let isAnonymous: Bool

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
        isAnonymous = false
    }

    /// Anyone, who can read one object.
    init(reading name: ObjectName) {
        // Expired, so that it admits no upload.
        let upload = Grant(id: "public", subject: nil, expiresAt: .distantPast)
        let actions: Set<ObjectAction> = [.getObject, .headObject]
        identity = .grant(
            ObjectGrant(upload: upload, bucket: name.bucket, keys: .only(name.key), actions: actions)
        )
        accessKeyID = ""
        isInGrace = false
        payload = .unsigned
        signature = nil
        claim = nil
        isAnonymous = true
    }

    /// `nil` for an administrator.
    package var grant: ObjectGrant? {
        if case .grant(let grant) = identity { grant } else { nil }
    }

    /// Counts a request of the caller.
    ///
    /// - Throws: `SlowDown` if it exceeds a limit.
    func count() throws(ObjectError) {
        // Only the limits of its address apply.
        if isAnonymous { return }
        do throws(UploadError) {
            let key = grant.map(\.upload.issuer) ?? StaticKeyPair.keyID(of: accessKeyID)
            try RequestMeter.identify(key: key ?? accessKeyID, subject: grant?.upload.subject)
        } catch {
            throw ObjectError(error, about: .object)
        }
    }

    /// Checks that the caller may execute a command.
    ///
    /// - Throws: As `authorize(_:contentLength:contentType:)` and `checkTags`.
    func authorize(_ command: ObjectCommand) throws(ObjectError) {
        try authorize(
            command.operation,
            contentLength: command.content.announcedLength(payload),
            contentType: command.content.type
        )
        if !command.write.headers.tags.isEmpty { try checkTags() }
    }

    /// Checks that the caller may read and set tags.
    ///
    /// Credentials for writing one media may not: a lifecycle rule by tag may delete it.
    ///
    /// - Throws: `AccessDenied`.
    func checkTags() throws(ObjectError) {
        guard let grant, WritingRight(grantID: grant.upload.id) != nil else { return }
        throw ObjectError(.accessDenied, "These credentials do not allow tags.")
    }

    /// Checks that the caller may perform an operation, as far as the head shows.
    ///
    /// For `DeleteObjects` and `PostObject`, that is whether any such object in this bucket could be allowed; call
    /// `check` for each object.
    ///
    /// - Parameters:
    ///   - operation: The requested operation.
    ///   - contentLength: Size of the object in the request, in bytes; `nil` if unknown.
    ///   - contentType: Media type of the object to create; `nil` if unknown.
    /// - Throws: `AccessDenied`; `ExpiredToken` in the grace period.
    package func authorize(
        _ operation: ObjectOperation,
        contentLength: Int64? = nil,
        contentType: String? = nil
    ) throws(ObjectError) {
        if isInGrace {
            guard case .completeMultipartUpload = operation else { throw ObjectError(.expiredToken) }
        }
        switch operation.requirement(contentLength: contentLength, contentType: contentType) {
        case .anybody: break
        case .administrator:
            guard identity == .administrator else { throw ObjectError(.accessDenied) }
        case .accesses(let accesses):
            for access in accesses { try check(access) }
        case .each(let action, let bucket):
            guard let grant else { return }
            guard grant.actions.contains(action), grant.covers(bucket: bucket) else {
                throw grant.refusal(of: action)
            }
        }
    }

    /// Checks one access.
    ///
    /// - Throws: `AccessDenied`.
    package func check(_ access: ObjectAccess) throws(ObjectError) {
        guard let grant else { return }
        guard grant.allows(access) else { throw grant.refusal(of: access.action) }
    }

    /// Whether the caller may see an upload in parts that is not complete: it has begun it, or may list objects.
    package func maySee(_ upload: Upload) -> Bool {
        guard let grant else { return true }
        return grant.upload.hasBegun(upload) || grant.actions.contains(.listObjects)
    }

    /// Whether the caller may add parts to an upload, and complete it: it is not another user's, or the caller may see it.
    ///
    /// Another key's session of the same user may: keys are replaced while uploads are in progress.
    package func mayContinue(_ upload: Upload) -> Bool {
        guard let subject = upload.subject, let grant else { return true }
        return grant.upload.subject.isSameSubject(as: subject) || maySee(upload)
    }

    /// Whether the caller may abort an upload in parts: it has begun it, or may both delete and change what others began.
    package func mayAbort(_ upload: Upload) -> Bool {
        guard let grant else { return true }
        return grant.upload.hasBegun(upload) || grant.actions.isSuperset(of: [.deleteObject, .updateVideoInfo])
    }

    /// Whether a listing shows a key to the caller; for `Listing.page`.
    package func listing(_ key: String) -> ListingDecision {
        guard let grant else { return .include }
        if grant.covers(key) { return .include }
        // No key after the grant's only key is covered.
        if case .only(let only) = grant.keys, only.utf8.lexicographicallyPrecedes(key.utf8) { return .stop }
        return .skip
    }
}

extension ObjectGrant {
    /// Reports the requested action and what these credentials allow, which their holder may know.
    func refusal(of action: ObjectAction) -> ObjectError {
        let allowed = actions.filter { !$0.isVideoCall }.map { Self.name($0) }.sorted().joined(separator: ", ")
        let scope =
            switch keys {
            case .only(let key): "the key \(key)"
            case .within(let prefix): "keys that begin with \(prefix.text)"
            case .all: "all keys"
            }
        let policy = policies.isEmpty ? "" : ", as far as their session policies allow it"
        return ObjectError(
            .accessDenied,
            """
            These credentials do not allow this \(Self.name(action)). They allow \(allowed) for \(scope) in \
            \(bucket.map { "the bucket \($0)" } ?? "all buckets")\(policy).
            """
        )
    }

    /// The name of the operation, such as `PutObject`.
    private static func name(_ action: ObjectAction) -> String {
        let text = "\(action)"
        return text.prefix(1).uppercasedASCII() + text.dropFirst()
    }
}
