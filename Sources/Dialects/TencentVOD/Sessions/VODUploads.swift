internal import Bytes
internal import Foundation
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// A file that a client wants to upload.
struct VODNewFile: Sendable, Equatable {
    var name: String
    /// Extension without the dot.
    var type: String
    /// Bytes; `nil` if the client does not say.
    var size: Int64?
}

extension VODNewFile {
    /// The upload that limits are checked for.
    var newUpload: NewUpload {
        let suffix = type.lowercasedASCII()
        var values = ["filename": name.lowercasedASCII().hasSuffix(".\(suffix)") ? name : "\(name).\(suffix)"]
        values["filetype"] = MediaTypes.type(ofExtension: suffix)
        return NewUpload(dialect: "cos", length: size, metadata: UploadMetadata(describing: values))
    }
}

/// What a client wants to upload.
enum VODRequest: Sendable, Equatable {
    /// A video, an image or another file, with or without a cover.
    case media(VODNewFile, cover: VODNewFile?)
    /// Another cover for media that exists.
    case cover(VODNewFile, of: String)
}

/// Sessions of the VOD upload SDKs: begins, resumes and commits them.
///
/// A session is a record. The id of its media is chosen when it begins, so that committing it twice, or on two nodes at
/// once, makes the same media.
struct VODUploads: Sendable {
    /// Credentials for the files of a session.
    struct Applied: Sendable {
        let session: VODSession
        let sessionKey: String
        let credentials: SessionCredentials
    }

    struct Committed: Sendable {
        let media: VODMedia
        /// What the session brought: all of it, or only a cover.
        let session: VODSession
    }

    private static let signatureKind = "tencent signature"
    /// Seconds for which a record is kept after the end of its session, so that what the session left can be removed.
    ///
    /// Longer than any session: `removeExpired` looks at sessions by their age.
    private static let cleaning: Int64 = 31 * 86_400

    /// Seconds after its begin in which a session can be used and committed, however often it is resumed.
    static let longestUpload: TimeInterval = 90 * 86_400

    /// Seconds after the end of a session in which its files stay: the object endpoint lets clients complete a multipart
    /// upload for an hour after their credentials have expired.
    private var grace: Int64 { min(3600, place.sessionSeconds) }

    let place: VODPlace
    let records: any DialectRecords
    let library: VODLibrary
    let events: VODEvents
    let objects: ObjectService
    let uploads: UploadService
    let issuer: CredentialIssuer
    let keys: VODSessionKeys
    let limiter: RateLimiter
    let clock: any WallClock

    // MARK: Beginning

    /// Begins a session.
    ///
    /// - Parameters:
    ///   - request: The files.
    ///   - region: The storage region that the client measured as the nearest; the signature's comes first.
    ///   - signer: Who signed the request.
    /// - Returns: The session and its credentials.
    /// - Throws: `VODFailure`; `UploadError` if state or storage do not respond.
    func begin(_ request: VODRequest, region: String?, by signer: VODSigner) async throws -> Applied {
        try checkRate(of: signer)
        let now = clock.now
        if signer.isOneTime, try await records.record(Self.signatureKind, signer.id) != nil { throw Self.used }
        var session = try await newSession(request, region: region, by: signer, at: now)
        for file in session.files { try await admit(file, of: session, by: signer) }
        try await prepareBucket()
        while true {
            try await count(session, at: now)
            let record = CodedRecord(VODSession.kind, session.fileID, session, at: now, until: end(of: session))
            if try await records.insert(record.record, at: now) { break }
            try await discount(session)
            // The same millisecond and the same six digits.
            session = try await newSession(request, region: region, by: signer, at: now)
        }
        do {
            // Last, so that a failure before it does not use up the signature.
            try await use(signer, for: session.fileID)
        } catch {
            _ = try? await records.removeRecord(VODSession.kind, session.fileID)
            try? await discount(session)
            throw error
        }
        return try applied(session, by: signer, at: now)
    }

    func newSession(
        _ request: VODRequest,
        region: String?,
        by signer: VODSigner,
        at now: Date
    ) async throws -> VODSession {
        let parameters = signer.parameters
        let fileID = Self.newID(at: now)
        var session = VODSession(
            fileID: fileID,
            owner: signer.owner,
            bucket: place.bucketName,
            region: parameters.storageRegion ?? region ?? place.region,
            source: signer.serverLimits == nil ? .client : .server,
            labels: VODLabels(parameters),
            validUntil: now.unixSeconds + place.sessionSeconds
        )
        switch request {
        case .media(let video, let cover):
            let directory = VODPlace.directory(signer.owner.application, fileID)
            session.video = Self.file(video, named: "f0", in: directory)
            session.cover = cover.map { Self.file($0, named: Self.following(fileID), in: directory) }
        case .cover(let cover, let id):
            guard let media = try await media(id, of: signer)?.content else {
                throw VODFailure(.noMedia, "there is no media with this fileId")
            }
            // A name of its own: the old cover stays until the new one is committed.
            session.replacing = id
            session.bucket = media.bucket
            session.cover = Self.file(cover, named: fileID, in: Self.directory(of: media.video.key))
        }
        return session
    }

    private static func file(_ file: VODNewFile, named name: String, in directory: String) -> VODFile {
        let type = file.type.lowercasedASCII()
        return VODFile(key: "\(directory)\(name).\(type)", name: file.name, type: type, size: file.size)
    }

    private static func directory(of key: String) -> String {
        key.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(key[...$0]) } ?? ""
    }

    /// 19 digits: the time in milliseconds, and six random digits.
    static func newID(at now: Date) -> String {
        let milliseconds = UInt64(min(max(now.unixMilliseconds, 1_000_000_000_000), 9_000_000_000_000))
        return String(milliseconds * 1_000_000 + UInt64.random(in: 0..<1_000_000))
    }

    /// The name of a cover beside its video, as the vendor names it.
    private static func following(_ fileID: String) -> String {
        UInt64(fileID).map { String($0 + 1) } ?? fileID + "c"
    }

    /// Checks limits and quotas before a byte is sent.
    func admit(_ file: VODFile, of session: VODSession, by signer: VODSigner) async throws {
        let grant = signer.grant(for: session.fileID, until: .distantFuture)
        do throws(UploadError) {
            let wanted = VODNewFile(name: file.name, type: file.type, size: file.size)
            try await uploads.checkAdmission(of: wanted.newUpload, under: grant)
        } catch {
            if let failure = VODFailure(refusal: error) { throw failure }
            throw error
        }
    }

    func prepareBucket() async throws(UploadError) {
        if try await objects.bucket(place.bucketName) == nil { _ = try await objects.createBucket(place.bucketName) }
    }

    // MARK: Resuming

    /// Continues a session: the same paths, and new credentials.
    ///
    /// - Parameters:
    ///   - sessionKey: Names the session.
    ///   - named: The files that the client names again.
    ///   - signer: Who signed the request.
    /// - Returns: The session and its credentials.
    /// - Throws: `VODFailure`, `.invalidSession` also if the files are not those of the session: phones then begin another
    ///   one. `UploadError` if the state does not respond.
    func resume(
        _ sessionKey: String,
        for named: VODNamedFiles = VODNamedFiles(),
        by signer: VODSigner
    ) async throws -> Applied {
        let now = clock.now
        while true {
            let found = try await session(sessionKey, of: signer, at: now)
            guard !found.content.isCommitted else {
                throw VODFailure(.invalidSession, "this upload is complete; begin another one")
            }
            guard found.content.has(named) else {
                throw VODFailure(.invalidSession, "these are not the files of the session; begin the upload again")
            }
            try await use(signer, for: found.content.fileID)
            var session = found.content
            session.takeNames(of: named)
            session.validUntil = extendedEnd(of: found, at: now)
            // A commit has ended the right, and died before it was recorded.
            if try await objects.hasEnded(right: session.right) { session.turn = (session.turn ?? 0) + 1 }
            // If not, another request has moved the end on, or committed it.
            guard try await records.replace(found.replaced(by: session, until: end(of: session)).record) else {
                continue
            }
            return try applied(session, by: signer, at: now)
        }
    }

    private func session(
        _ sessionKey: String,
        of signer: VODSigner,
        at now: Date
    ) async throws -> CodedRecord<VODSession> {
        let unknown = VODFailure(.invalidSession, "the session is unknown or has expired; begin the upload again")
        guard let id = keys.open(sessionKey), let record = try await records.record(VODSession.kind, id) else {
            throw unknown
        }
        let found = try CodedRecord<VODSession>(record)
        guard signer.owns(found.content.owner), now.unixSeconds < found.content.validUntil else { throw unknown }
        return found
    }

    /// The end of a session that is used now.
    private func extendedEnd(of found: CodedRecord<VODSession>, at now: Date) -> Int64 {
        let last = found.record.createdAt.addingTimeInterval(Self.longestUpload).unixSeconds
        return max(found.content.validUntil, min(now.unixSeconds + place.sessionSeconds, last))
    }

    private func end(of session: VODSession) -> Date {
        Date(timeIntervalSince1970: Double(session.validUntil + Self.cleaning))
    }

    private func applied(_ session: VODSession, by signer: VODSigner, at now: Date) throws -> Applied {
        // Nothing can be sent after the session, when nothing would remove it.
        let seconds = min(now.unixSeconds + place.certificateSeconds, session.validUntil)
        let end = min(Date(timeIntervalSince1970: Double(seconds)), signer.lastExpiry ?? .distantFuture)
        var upload = signer.grant(for: session.fileID, turn: session.turn, until: end)
        // What was announced is what may be sent; a client that announced nothing has the limit of its signature.
        if let largest = session.files.map({ $0.size ?? .max }).max(), largest < .max {
            upload.maximumBytes = min(upload.maximumBytes ?? .max, largest)
        }
        let directory = session.segments.flatMap { KeyPrefix($0.key) }
        let grant =
            directory.map { ObjectGrant(upload: upload, bucket: session.bucket, keys: .within($0)) }
            ?? ObjectGrant(
                upload: upload,
                bucket: session.bucket,
                files: session.files.map { .init(key: $0.key, maximumBytes: $0.size) }
            )
        do throws(GrantTooLong) {
            let credentials = try issuer.mint(grant, for: .tencent)
            return Applied(session: session, sessionKey: keys.seal(session.fileID), credentials: credentials)
        } catch {
            throw VODFailure.invalid(error.message)
        }
    }

    // MARK: One-time signatures

    private static let used = VODFailure(.signatureUsed, "this one-time signature was used; ask for another one")

    /// Consumes a one-time signature for a session, or checks that this session has consumed it.
    ///
    /// Some SDKs keep one signature for all calls of an upload, others fetch another one for each call.
    ///
    /// - Throws: `VODFailure`, `.signatureUsed`; `UploadError`.
    private func use(_ signer: VODSigner, for fileID: String) async throws {
        guard signer.isOneTime else { return }
        let now = clock.now
        let record = DialectRecord(
            kind: Self.signatureKind,
            key: signer.id,
            text: fileID,
            createdAt: now,
            // Later it is refused because it has expired.
            expiresAt: Date(timeIntervalSince1970: Double(signer.parameters.expireTime + 60))
        )
        do throws(UploadError) {
            if try await records.insert(record, at: now) { return }
        } catch {
            // It may have been inserted nevertheless: then this session has the signature.
            guard try await records.record(Self.signatureKind, signer.id)?.text == fileID else { throw error }
            return
        }
        guard try await records.record(Self.signatureKind, signer.id)?.text == fileID else { throw Self.used }
    }

    // MARK: Committing

    /// Makes media of what was uploaded in a session; the same for each call.
    ///
    /// - Throws: `VODFailure`, `.incomplete` if bytes are missing; nothing is lost then.
    func commit(_ sessionKey: String, by signer: VODSigner) async throws -> Committed {
        while true {
            let now = clock.now
            let found = try await session(sessionKey, of: signer, at: now)
            var session = found.content
            try await use(signer, for: session.fileID)
            if let media = try await committed(session, by: signer) {
                return Committed(media: media, session: session)
            }
            // A commit that comes too early ends nothing.
            try await checkArrival(of: session)
            // From here on nothing that was sent under the session's certificates changes what is committed.
            try await endRight(of: session)
            try await checkArrival(of: session)
            session.isCommitted = true
            // Cleaning up does not begin before this end, so it cannot remove what is being committed.
            session.validUntil = extendedEnd(of: found, at: now)
            guard try await records.replace(found.replaced(by: session, until: end(of: session)).record) else {
                continue
            }
            // If this fails, the session's end does it.
            try? await discount(session)
            return Committed(media: try await record(session, by: signer), session: session)
        }
    }

    /// Ends the right of all certificates of a session.
    private func endRight(of session: VODSession) async throws(UploadError) {
        try await objects.endRight(
            session.right,
            to: session.objectNames,
            below: session.segments,
            until: end(of: session)
        )
    }

    /// The media of a session, if an earlier commit recorded it.
    private func committed(_ session: VODSession, by signer: VODSigner) async throws -> VODMedia? {
        guard session.isCommitted else { return nil }
        guard let media = try await media(session.mediaID, of: signer)?.content else { return nil }
        if session.replacing == nil { return media }
        // A repeated commit must not undo a later one.
        return media.coverSession.map { $0 >= session.fileID } ?? false ? media : nil
    }

    private func checkArrival(of session: VODSession) async throws {
        for (file, what) in [(session.video, "video"), (session.cover, "cover")] {
            guard let file else { continue }
            guard let object = try await objects.object(ObjectName(bucket: session.bucket, key: file.key)) else {
                throw VODFailure(.incomplete, "the \(what) has not arrived completely; upload it and commit again")
            }
            // A client that announced nothing may have sent nothing.
            if object.size == 0 {
                throw VODFailure(.incomplete, "the \(what) is empty; upload another one and commit again")
            }
            if let size = file.size, object.size != size {
                throw VODFailure(
                    .incomplete,
                    "the \(what) has \(object.size) bytes instead of \(size); upload it again and commit again"
                )
            }
        }
    }

    private func record(_ session: VODSession, by signer: VODSigner) async throws -> VODMedia {
        if let replaced = session.replacing { return try await replaceCover(of: replaced, with: session, by: signer) }
        guard let video = session.video else { throw VODFailure.invalid("the session has no video") }
        guard let object = try await objects.object(ObjectName(bucket: session.bucket, key: video.key)),
            let media = try await media(session, object)
        else { throw VODFailure(.incomplete, "the video has not arrived completely; upload it and commit again") }
        // Before the media: it is delivered only once that is there, and a repeated commit would not record it.
        try await events.record(.uploaded, of: media.fileID, in: media.owner.application)
        if try await library.insert(media) {
            // Who may write to the bucket may have replaced a file before this media could be found.
            guard let found = try await library.media(media.fileID, of: media.owner.application) else { return media }
            return try await library.settled(found, telling: events)?.content ?? media
        }
        // Another commit of this session was faster.
        guard let known = try await self.media(session.fileID, of: signer) else {
            throw VODFailure(.noMedia, "this media was deleted")
        }
        return known.content
    }

    private func media(_ session: VODSession, _ video: Media) async throws -> VODMedia? {
        let content = try await library.content(video, with: session.segments, without: session.cover?.key)
        return VODMedia(session, size: content.size, md5: content.md5, contentID: content.id)
    }

    private func replaceCover(of id: String, with session: VODSession, by signer: VODSigner) async throws -> VODMedia {
        while true {
            guard let found = try await media(id, of: signer), let cover = session.cover else {
                throw VODFailure(.noMedia, "there is no media with this fileId")
            }
            // The cover of a later session stays.
            if let current = found.content.coverSession, current >= session.fileID { return found.content }
            var media = found.content
            if let replaced = media.cover { media.replacedCovers.append(replaced.key) }
            media.cover = cover
            media.coverSession = session.fileID
            guard try await records.replace(found.replaced(by: media, until: nil).record) else { continue }
            // If this fails, the end of the session removes it.
            try? await removeReplacedCovers(of: id, media.owner.application)
            return media
        }
    }

    private func removeReplacedCovers(of id: String, _ application: Int64) async throws {
        guard let found = try await library.record(id, of: application), !found.content.replacedCovers.isEmpty else {
            return
        }
        for key in found.content.replacedCovers {
            _ = try await objects.removeObject(ObjectName(bucket: found.content.bucket, key: key))
        }
        var media = found.content
        media.replacedCovers = []
        // If not, another cover was replaced meanwhile, which lists them again.
        _ = try await records.replace(found.replaced(by: media, until: nil).record)
    }

    /// Media of the signer's application and user.
    private func media(_ fileID: String, of signer: VODSigner) async throws -> CodedRecord<VODMedia>? {
        guard let found = try await library.media(fileID, of: signer.owner.application) else { return nil }
        return signer.owns(found.content.owner) ? found : nil
    }

    // MARK: Cleaning up

    /// Removes what expired sessions have left, and their records.
    ///
    /// - Throws: `UploadError`; the next call continues.
    func removeExpired() async throws {
        let now = clock.now.unixSeconds - grace
        var last: String?
        while true {
            let page = try await records.records(VODSession.kind, prefix: "", after: last, limit: 100)
            for record in page {
                last = record.key
                // Ids begin with the time, so all that follow are younger.
                guard let id = UInt64(record.key), Int64(id / 1_000_000_000) + place.sessionSeconds <= now else {
                    return
                }
                let found = try CodedRecord<VODSession>(record)
                if now >= found.content.validUntil { try await remove(found) }
            }
            if page.count < 100 { return }
        }
    }

    /// Ends a session, and removes its files unless media has them.
    private func remove(_ found: CodedRecord<VODSession>) async throws {
        let session = found.content
        var ended = session
        ended.validUntil = 0
        // From here on no commit succeeds. If a commit was faster, it has extended the session.
        guard try await records.replace(found.replaced(by: ended, until: end(of: session)).record) else { return }
        try await endRight(of: session)
        let media = try await library.media(session.mediaID, of: session.owner.application)?.content
        for file in session.files where media?.has(file) != true {
            _ = try await objects.removeObject(ObjectName(bucket: session.bucket, key: file.key))
        }
        if media == nil, let directory = session.segments { try await objects.removeObjects(below: directory) }
        if let replaced = session.replacing { try await removeReplacedCovers(of: replaced, session.owner.application) }
        try await discount(session)
        _ = try await records.removeRecord(VODSession.kind, session.fileID)
    }
}
