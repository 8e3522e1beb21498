internal import Bytes
internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// What a caller wants to upload.
struct ApsaraNewUpload: Sendable, Equatable {
    var kind: ApsaraMedia.Kind
    var application = ApsaraPlace.defaultApplication
    var subject: String?
    var fileName: String
    /// In lower case.
    var suffix: String
    /// Bytes; `nil` if the caller does not say.
    var size: Int64?
    var maximumBytes: Int64?
    var category: String?
    var labels = ApsaraMedia.Labels()
}

/// Begins uploads and issues credentials for them.
struct ApsaraUploads: Sendable {
    /// Credentials for one object.
    struct Issued: Sendable {
        let media: ApsaraMedia
        let credentials: SessionCredentials
        /// Seconds for which they are valid.
        let seconds: Int64
    }

    let place: ApsaraPlace
    let library: ApsaraLibrary
    let uploads: UploadService
    let issuer: CredentialIssuer
    let clock: any WallClock

    /// Begins the upload of new media.
    ///
    /// - Throws: `ApsaraError`.
    func begin(_ new: ApsaraNewUpload, by caller: ApsaraCaller) async throws(ApsaraError) -> Issued {
        let media = try await admitted(new, by: caller)
        // Before the record: nothing is left of a grant that is too long.
        let issued = try issue(media, by: caller)
        try await record(media, begunBy: caller.user)
        return issued
    }

    /// New media that limits and quotas allow, not recorded yet.
    func admitted(_ new: ApsaraNewUpload, by caller: ApsaraCaller) async throws(ApsaraError) -> ApsaraMedia {
        let now = clock.now
        let id = ApsaraMedia.newID(at: now)
        let media = ApsaraMedia(
            id: id,
            kind: new.kind,
            application: new.application,
            subject: new.subject ?? caller.subject,
            issuer: caller.issuer,
            bucket: place.bucket,
            key: ApsaraPlace.key(new.kind, id, of: new.application, suffix: new.suffix),
            fileName: new.fileName,
            suffix: new.suffix,
            announced: new.size,
            maximumBytes: caller.limit(new.maximumBytes),
            category: new.category,
            labels: new.labels,
            modifiedAt: now.unixSeconds,
            openUntil: now.unixSeconds + place.authSeconds + ApsaraPlace.grace
        )
        guard caller.mayBegin(for: media.subject, in: media.application, at: place) else {
            throw ApsaraError.forbidden
        }
        try await admit(media, by: caller)
        if try await core(await library.objects.bucket(place.bucket)) == nil {
            _ = try await core(await library.objects.createBucket(place.bucket))
        }
        return media
    }

    /// - Parameters:
    ///   - media: The new media.
    ///   - user: The app user who calls, and may have a bounded number of media without content.
    ///   - others: What is recorded with it.
    /// - Throws: `ApsaraError`.
    func record(
        _ media: ApsaraMedia,
        begunBy user: String?,
        with others: [DialectChange] = []
    ) async throws(ApsaraError) {
        let counting = user == nil ? [] : try await library.counting(media)
        do throws(UploadError) {
            try await library.insert(media, with: counting + others)
        } catch {
            throw error.code == .conditionFailed ? .duplicatedReference : .core(error)
        }
    }

    /// New credentials for media: its object and its uploads stay the same.
    ///
    /// - Returns: `nil` if it was deleted.
    func refresh(_ media: ApsaraMedia, by caller: ApsaraCaller) async throws(ApsaraError) -> Issued? {
        try await admit(media, by: caller)
        let end = clock.now.unixSeconds + place.authSeconds + ApsaraPlace.grace
        guard let current = try await core(await library.reopen(media.id, until: end)) else { return nil }
        return try issue(current, by: caller)
    }

    /// Checks limits and quotas before a byte is sent.
    private func admit(_ media: ApsaraMedia, by caller: ApsaraCaller) async throws(ApsaraError) {
        var values = ["filename": media.fileName.isEmpty ? "\(media.id).\(media.suffix)" : media.fileName]
        values["filetype"] = MediaTypes.type(ofExtension: media.suffix)
        let new = NewUpload(dialect: "oss", length: media.announced, metadata: UploadMetadata(describing: values))
        do throws(UploadError) {
            try await uploads.checkAdmission(of: new, under: grant(for: media, by: caller, until: .distantFuture))
        } catch {
            throw AliyunCallFailure(refusal: error).map(ApsaraError.refused) ?? .core(error)
        }
    }

    private func issue(_ media: ApsaraMedia, by caller: ApsaraCaller) throws(ApsaraError) -> Issued {
        let now = clock.now
        let end = caller.lastExpiry(now.addingTimeInterval(Double(place.authSeconds)), at: now)
        let grant = ObjectGrant(
            upload: grant(for: media, by: caller, until: end),
            bucket: media.bucket,
            files: [.init(key: media.key, maximumBytes: nil)]
        )
        do throws(GrantTooLong) {
            return Issued(
                media: media,
                credentials: try issuer.mint(grant, for: .aliyun),
                seconds: end.unixSeconds - now.unixSeconds
            )
        } catch {
            throw .invalid("Title", "is too long: \(error.message)")
        }
    }

    /// The grant of an upload; it has the same id after each refresh, so uploads go on with other credentials, until
    /// content is there: the next refresh then is for other content, and gives the right to write anew.
    func grant(for media: ApsaraMedia, by caller: ApsaraCaller, until end: Date) -> Grant {
        var types: [String] = []
        var metadata: [String: String] = [:]
        if case .session(let grant) = caller.identity {
            types = grant.upload.contentTypes
            metadata = grant.upload.metadata
        }
        metadata["mediaId"] = media.id
        return Grant(
            id: media.right,
            // Not the key that began it, which may have been revoked since.
            issuer: caller.issuer,
            subject: media.subject,
            maximumBytes: media.largest,
            contentTypes: types,
            expiresAt: end,
            metadata: metadata,
            issuedAt: clock.now
        )
    }
}
