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
    /// - Throws: `VODError`.
    func begin(_ request: VODRequest, region: String?, by signer: VODSigner) async throws(VODError) -> Applied {
        try checkRate(of: signer)
        let now = clock.now
        _ = try await consumption(of: signer, for: nil, at: now)
        var session = try await newSession(request, region: region, by: signer, at: now)
        for file in session.files { try await admit(file, of: session, by: signer) }
        try await core(await prepareBucket())
        while true {
            let record = CodedRecord(VODSession.kind, session.fileID, session, at: now, until: end(of: session))
            let changes =
                try await [.insert(record.record, at: now)] + counting(session, at: now)
                + consumption(of: signer, for: session.fileID, at: now)
            do throws(UploadError) {
                if try await records.apply(changes) { break }
            } catch {
                // It may have been recorded nevertheless: then this session has the signature.
                guard signer.isOneTime, try await core(await user(of: signer)) == session.fileID else {
                    throw .core(error)
                }
                break
            }
            // The signature was used meanwhile, or it is the same millisecond and the same six digits.
            session = try await newSession(request, region: region, by: signer, at: now)
        }
        return try applied(session, by: signer, at: now)
    }

    func newSession(
        _ request: VODRequest,
        region: String?,
        by signer: VODSigner,
        at now: Date
    ) async throws(VODError) -> VODSession {
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
            guard let media = try await core(await media(id, of: signer)?.content) else {
                throw VODError(.noMedia, "there is no media with this fileId")
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
    func admit(_ file: VODFile, of session: VODSession, by signer: VODSigner) async throws(VODError) {
        let grant = signer.grant(for: session.fileID, until: .distantFuture)
        let wanted = VODNewFile(name: file.name, type: file.type, size: file.size)
        try await core(await uploads.checkAdmission(of: wanted.newUpload, under: grant))
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
    /// - Throws: `VODError`, `.invalidSession` also if the files are not those of the session: phones then begin another one.
    func resume(
        _ sessionKey: String,
        for named: VODNamedFiles = VODNamedFiles(),
        by signer: VODSigner
    ) async throws(VODError) -> Applied {
        let now = clock.now
        while true {
            let found = try await session(sessionKey, of: signer, at: now)
            guard !found.content.isCommitted else {
                throw VODError(.invalidSession, "this upload is complete; begin another one")
            }
            guard found.content.has(named) else {
                throw VODError(.invalidSession, "these are not the files of the session; begin the upload again")
            }
            let consumption = try await consumption(of: signer, for: found.content.fileID, at: now)
            var session = found.content
            session.takeNames(of: named)
            session.validUntil = extendedEnd(of: found, at: now)
            // A commit has ended the right, and died before it was recorded.
            if try await core(await objects.hasEnded(right: session.right)) { session.turn = (session.turn ?? 0) + 1 }
            let replacing = DialectChange.replace(found.replaced(by: session, until: end(of: session)).record)
            // If not, another request has moved the end on, or committed it.
            guard try await core(await records.apply([replacing] + consumption)) else { continue }
            return try applied(session, by: signer, at: now)
        }
    }

    private func session(
        _ sessionKey: String,
        of signer: VODSigner,
        at now: Date
    ) async throws(VODError) -> CodedRecord<VODSession> {
        let unknown = VODError(.invalidSession, "the session is unknown or has expired; begin the upload again")
        guard let id = keys.open(sessionKey), let record = try await core(await records.record(VODSession.kind, id))
        else {
            throw unknown
        }
        let found = try await core(try CodedRecord<VODSession>(record))
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

    private func applied(_ session: VODSession, by signer: VODSigner, at now: Date) throws(VODError) -> Applied {
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
            throw VODError.invalid(error.message)
        }
    }

    // MARK: One-time signatures

    private static let used = VODError(.signatureUsed, "this one-time signature was used; ask for another one")

    /// The session that has consumed a one-time signature.
    private func user(of signer: VODSigner) async throws(UploadError) -> String? {
        try await records.record(Self.signatureKind, signer.id)?.text
    }

    /// The change that consumes a one-time signature for a session; none if this session has consumed it.
    ///
    /// Some SDKs keep one signature for all calls of an upload, others fetch another one for each call.
    ///
    /// - Throws: `VODError`, `.signatureUsed`.
    private func consumption(
        of signer: VODSigner,
        for fileID: String?,
        at now: Date
    ) async throws(VODError) -> [DialectChange] {
        guard signer.isOneTime else { return [] }
        if let user = try await core(await user(of: signer)) {
            guard user == fileID else { throw Self.used }
            return []
        }
        let record = DialectRecord(
            kind: Self.signatureKind,
            key: signer.id,
            text: fileID ?? "",
            createdAt: now,
            // Later it is refused because it has expired.
            expiresAt: Date(timeIntervalSince1970: Double(signer.parameters.expireTime + 60))
        )
        return [.insert(record, at: now)]
    }

    // MARK: Committing

    /// Makes media of what was uploaded in a session; the same for each call.
    ///
    /// - Throws: `VODError`, `.incomplete` if bytes are missing; nothing is lost then.
    func commit(_ sessionKey: String, by signer: VODSigner) async throws(VODError) -> Committed {
        while true {
            let now = clock.now
            let found = try await session(sessionKey, of: signer, at: now)
            var session = found.content
            var changes = try await consumption(of: signer, for: session.fileID, at: now)
            if let media = try await core(await committed(session, by: signer)) {
                if !changes.isEmpty, try await !core(await records.apply(changes)) { continue }
                return Committed(media: media, session: session)
            }
            // A commit that comes too early ends nothing.
            try await checkArrival(of: session)
            // From here on nothing that was sent under the session's certificates changes what is committed.
            try await core(await endRight(of: session))
            try await checkArrival(of: session)
            session.isCommitted = true
            session.validUntil = extendedEnd(of: found, at: now)
            changes.append(.replace(found.replaced(by: session, until: end(of: session)).record))
            let (media, recording) = try await recording(session, by: signer)
            // If not, another commit was faster, or cleaning up has ended the session.
            guard try await core(await records.apply(changes + discounting(session) + recording)) else {
                continue
            }
            events.bell.ring()
            return Committed(media: try await core(await settled(media, of: session)), session: session)
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
    private func committed(_ session: VODSession, by signer: VODSigner) async throws(UploadError) -> VODMedia? {
        guard session.isCommitted else { return nil }
        guard let media = try await media(session.mediaID, of: signer)?.content else { return nil }
        if session.replacing == nil { return media }
        // A repeated commit must not undo a later one.
        return media.coverSession.map { $0 >= session.fileID } ?? false ? media : nil
    }

    private func checkArrival(of session: VODSession) async throws(VODError) {
        for (file, what) in [(session.video, "video"), (session.cover, "cover")] {
            guard let file else { continue }
            guard let object = try await core(await objects.object(ObjectName(bucket: session.bucket, key: file.key)))
            else {
                throw VODError(.incomplete, "the \(what) has not arrived completely; upload it and commit again")
            }
            // A client that announced nothing may have sent nothing.
            if object.size == 0 {
                throw VODError(.incomplete, "the \(what) is empty; upload another one and commit again")
            }
            if let size = file.size, object.size != size {
                throw VODError(
                    .incomplete,
                    "the \(what) has \(object.size) bytes instead of \(size); upload it again and commit again"
                )
            }
        }
    }

    /// What a session makes or changes, and the changes that record it.
    private func recording(
        _ session: VODSession,
        by signer: VODSigner
    ) async throws(VODError) -> (media: VODMedia, changes: [DialectChange]) {
        if let id = session.replacing {
            guard let found = try await core(await media(id, of: signer)), let cover = session.cover else {
                throw VODError(.noMedia, "there is no media with this fileId")
            }
            // The cover of a later session stays.
            if let current = found.content.coverSession, current >= session.fileID { return (found.content, []) }
            var media = found.content
            if let replaced = media.cover { media.replacedCovers.append(replaced.key) }
            media.cover = cover
            media.coverSession = session.fileID
            return (media, [.replace(found.replaced(by: media, until: nil).record)])
        }
        guard let video = session.video else { throw VODError.invalid("the session has no video") }
        if try await core(await library.record(session.fileID, of: session.owner.application))?.content.isDeleted
            == true
        {
            throw VODError(.noMedia, "this media was deleted")
        }
        guard let object = try await core(await objects.object(ObjectName(bucket: session.bucket, key: video.key))),
            let media = try await core(await media(session, object))
        else { throw VODError(.incomplete, "the video has not arrived completely; upload it and commit again") }
        let event = events.recording(.uploaded, of: media.fileID, in: media.owner)
        return (media, [library.insertion(of: media)] + event)
    }

    /// Media after its commit.
    private func settled(_ media: VODMedia, of session: VODSession) async throws(UploadError) -> VODMedia {
        if session.replacing != nil {
            // If this fails, the end of the session removes it.
            try? await removeReplacedCovers(of: media.fileID, media.owner.application)
            return media
        }
        // Who may write to the bucket may have replaced a file before this media could be found.
        guard let found = try await library.media(media.fileID, of: media.owner.application) else { return media }
        return try await library.settled(found, telling: events)?.content ?? media
    }

    private func media(_ session: VODSession, _ video: Media) async throws(UploadError) -> VODMedia? {
        let content = try await library.content(video, with: session.segments, without: session.cover?.key)
        return VODMedia(session, size: content.size, md5: content.md5, contentID: content.id)
    }

    private func removeReplacedCovers(of id: String, _ application: Int64) async throws(UploadError) {
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
    private func media(_ fileID: String, of signer: VODSigner) async throws(UploadError) -> CodedRecord<VODMedia>? {
        guard let found = try await library.media(fileID, of: signer.owner.application) else { return nil }
        return signer.owns(found.content.owner) ? found : nil
    }

    // MARK: Cleaning up

    /// Removes what expired sessions have left, and their records; one that fails keeps no other from being removed.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: The first failure, at the end; the next call continues.
    @discardableResult
    func removeExpired(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        let now = clock.now.unixSeconds - grace
        let old = try await records.addTerms(to: VODSession.kind, as: VODSession.self, failing: failing)
        let hasAny = try await records.each(VODSession.kind, VODSession.ending, upTo: now, failing: failing) {
            (record) throws(UploadError) in
            let found = try CodedRecord<VODSession>(record)
            if now >= found.content.validUntil { try await remove(found) }
        }
        if let old { throw old }
        return hasAny
    }

    /// Ends a session, and removes its files unless media has them.
    private func remove(_ found: CodedRecord<VODSession>) async throws(UploadError) {
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
        let removal = DialectChange.removeIfPresent(kind: VODSession.kind, key: session.fileID)
        _ = try await records.apply([removal] + discounting(session))
    }
}
