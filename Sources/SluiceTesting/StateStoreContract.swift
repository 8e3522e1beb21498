internal import Digests
internal import Foundation
package import UploadCore

/// What every `StateStore` has to do.
package enum StateStoreContract {
    package static let all: [Contract<any StateStore>] = [
        uploads, concatenations, lists, ends, grants, accounts, events, keys, pulls, duties, objectParts, objects,
    ].flatMap { $0 }

    static let start = Date(timeIntervalSince1970: 1_750_000_000.123)

    static func upload(
        _ seconds: TimeInterval = 0,
        subject: String? = "alice",
        length: Int64? = 10,
        expiresIn: TimeInterval? = 60
    ) -> Upload {
        let created = start.addingTimeInterval(seconds)
        return Upload(
            id: UploadID.generate(at: created),
            dialect: "tus",
            subject: subject,
            principal: "key_1",
            length: length,
            metadata: UploadMetadata(
                raw: "filename ZsO8,odd /w==",
                values: ["filename": "fü", "empty": "", "q": "\"'\\\0"]
            ),
            createdAt: created,
            expiresAt: expiresIn.map(created.addingTimeInterval)
        )
    }

    static func media(of upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Media {
        Media(
            id: upload.id,
            subject: upload.subject,
            size: upload.length ?? 7,
            contentType: "video/mp4",
            filename: "f.mp4",
            metadata: ["a": "ü"],
            createdAt: time
        )
    }

    static func completed(_ upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Upload {
        var completed = upload
        completed.state = .completed
        completed.length = upload.length ?? 7
        completed.offset = completed.length ?? 0
        completed.expiresAt = nil
        completed.updatedAt = time
        completed.endedAt = time
        return completed
    }

    static func grant(_ id: String, expiresIn: TimeInterval = 60) -> Grant {
        Grant(id: id, subject: nil, expiresAt: start.addingTimeInterval(expiresIn), isOneTime: true)
    }

    static let uploads: [Contract<any StateStore>] = [
        Contract("an upload is read back as it was inserted") { store in
            let full = upload()
            var bare = upload(1, subject: nil, length: nil, expiresIn: nil)
            bare.metadata = UploadMetadata()
            bare.completesWhenFull = false
            try await store.insert(full, consuming: nil)
            try await store.insert(bare, consuming: nil)
            try demand(await store.upload(full.id), is: full)
            try demand(await store.upload(bare.id), is: bare)
            try demand(await store.upload(UploadID.generate(at: start)), is: nil)
        },
        Contract("digests are read back as they were inserted, and those of media are set later, too") { store in
            var upload = upload()
            upload.expectedDigests = [.sha256: [1, 2, 255], .sha512: []]
            try await store.insert(upload, consuming: nil)
            try demand(await store.upload(upload.id), is: upload)
            var media = media(of: upload)
            media.digests = [.sha256: [0, 1], .crc32c: [2]]
            try await store.setDigests(of: upload.id, to: [.md5: [3]])
            try demand(await store.complete(completed(upload), as: media), is: true)
            try demand(await store.media(upload.id), is: media)
            media.digests = [.sha512: [9]]
            try await store.setDigests(of: upload.id, to: media.digests)
            try demand(await store.media(upload.id), is: media)
            _ = try await store.end(upload.id, as: .terminated, at: start)
            try await store.setDigests(of: upload.id, to: [.md5: [3]])
            try demand(await store.media(upload.id), is: nil)
        },
        Contract("completing turns an open upload into media, once") { store in
            let upload = upload(length: nil)
            let media = media(of: upload)
            try await store.insert(upload, consuming: nil)
            try demand(await store.media(upload.id), is: nil)
            try demand(await store.complete(completed(upload), as: media), is: true)
            try demand(await store.upload(upload.id), is: completed(upload))
            try demand(await store.media(upload.id), is: media)
            try demand(await store.complete(completed(upload), as: media), is: false)
        },
        Contract("an upload that is unknown or ended is not completed") { store in
            let upload = upload()
            try demand(await store.complete(completed(upload), as: media(of: upload)), is: false)
            try await store.insert(upload, consuming: nil)
            try demand(await store.end(upload.id, as: .terminated, at: start), is: true)
            try demand(await store.complete(completed(upload), as: media(of: upload)), is: false)
            try demand(await store.media(upload.id), is: nil)
        },
        Contract("the length of an open upload that has none is fixed, once") { store in
            var open = upload(length: nil)
            open.maximumBytes = 100
            let known = upload(1)
            let ended = upload(2, length: nil)
            for upload in [open, known, ended] { try await store.insert(upload, consuming: nil) }
            _ = try await store.end(ended.id, as: .terminated, at: start)
            let moment = start.addingTimeInterval(9)
            try demand(await store.setLength(of: open.id, to: 12, updatedAt: moment), is: true)
            open.length = 12
            open.reservedBytes = 12
            open.updatedAt = moment
            try demand(await store.upload(open.id), is: open)
            for id in [open.id, known.id, ended.id, UploadID.generate(at: start)] {
                try demand(await store.setLength(of: id, to: 13, updatedAt: start), is: false)
            }
            try demand(await store.upload(open.id), is: open)
            try demand(await store.upload(known.id), is: known)
        },
        Contract("the expiry of an open upload is moved, that of others is not") { store in
            var open = upload()
            let ended = upload(1)
            try await store.insert(open, consuming: nil)
            try await store.insert(ended, consuming: nil)
            _ = try await store.end(ended.id, as: .expired, at: start)
            let later = start.addingTimeInterval(500)
            try await store.setExpiry(of: open.id, to: later, updatedAt: start.addingTimeInterval(9))
            try await store.setExpiry(of: ended.id, to: later, updatedAt: start)
            open.expiresAt = later
            open.updatedAt = start.addingTimeInterval(9)
            try demand(await store.upload(open.id), is: open)
            try demand(await store.upload(ended.id)?.expiresAt, is: nil)
            try await store.setExpiry(of: open.id, to: nil, updatedAt: start)
            try demand(await store.upload(open.id)?.expiresAt, is: nil)
        },
    ]

    static func partial(_ seconds: TimeInterval) -> Upload {
        var upload = upload(seconds)
        upload.concatenation = Concatenation(.partial, raw: "partial")
        return upload
    }

    static func final(_ seconds: TimeInterval, of parts: [Upload]) -> Upload {
        var upload = upload(seconds, length: nil)
        let urls = parts.map { "/files/\($0.id)" }.joined(separator: " ")
        upload.concatenation = Concatenation(.final(parts: parts.map(\.id)), raw: "final;\(urls)")
        return upload
    }

    static let concatenations: [Contract<any StateStore>] = [
        Contract("partial and final uploads are read back as they were inserted, by one id and by many") { store in
            let parts = [partial(0), partial(1)]
            let whole = final(2, of: [parts[1], parts[0], parts[1]])
            for upload in parts + [whole] { try await store.insert(upload, consuming: nil) }
            for upload in parts + [whole] { try demand(await store.upload(upload.id), is: upload) }
            let unknown = UploadID.generate(at: start)
            let found = try await store.uploads([whole.id, unknown, parts[0].id, whole.id])
            try demand(found, is: [whole.id: whole, parts[0].id: parts[0]])
            try demand(await store.uploads([]), is: [:])
        },
        Contract("a partial upload completes without media and keeps an expiry") { store in
            let part = partial(0)
            try await store.insert(part, consuming: nil)
            var whole = completed(part)
            whole.expiresAt = start.addingTimeInterval(90)
            try demand(await store.complete(whole, as: nil), is: true)
            try demand(await store.upload(part.id), is: whole)
            try demand(await store.media(part.id), is: nil)
            try demand(await store.expiredUploads(at: start.addingTimeInterval(89), limit: 5), is: [])
            try demand(await store.expiredUploads(at: start.addingTimeInterval(90), limit: 5), is: [part.id])
            try demand(await store.end(part.id, as: .expired, at: start), is: true)
            try demand(await store.expiredUploads(at: start.addingTimeInterval(90), limit: 5), is: [])
        },
        Contract("the open final uploads of a part are found, each once, until they end") { store in
            let parts = [partial(0), partial(1)]
            let finals = [final(2, of: [parts[0], parts[0]]), final(3, of: parts), final(4, of: [parts[1]])]
            for upload in parts + finals { try await store.insert(upload, consuming: nil) }
            try demand(await store.openFinals(of: parts[0].id), is: [finals[0].id, finals[1].id])
            try demand(await store.openFinals(of: parts[1].id), is: [finals[1].id, finals[2].id])
            try demand(await store.openFinals(of: finals[0].id), is: [])
            _ = try await store.complete(completed(finals[0]), as: media(of: finals[0]))
            _ = try await store.end(finals[1].id, as: .terminated, at: start)
            try demand(await store.openFinals(of: parts[0].id), is: [])
            try demand(await store.openFinals(of: parts[1].id), is: [finals[2].id])
        },
    ]

    static let lists: [Contract<any StateStore>] = [
        Contract("lists are newest first, filtered, and go on where the page before ended") { store in
            var all: [Upload] = []
            for index in 0..<9 {
                let upload = upload(TimeInterval(index), subject: index % 2 == 0 ? "alice" : "bob")
                all.insert(upload, at: 0)
                try await store.insert(upload, consuming: nil)
                if index % 3 == 0 { _ = try await store.complete(completed(upload), as: media(of: upload)) }
            }
            try demand(await store.uploads(UploadQuery(limit: 100)).map(\.id), is: all.map(\.id))
            let first = try await store.uploads(UploadQuery(limit: 4))
            try demand(first.map(\.id), is: Array(all.prefix(4).map(\.id)))
            let second = try await store.uploads(UploadQuery(before: first.last?.id, limit: 4))
            try demand(second.map(\.id), is: Array(all[4..<8].map(\.id)))
            let whole = try await store.uploads(UploadQuery(states: [.completed]))
            try demand(whole.map(\.id), is: [all[2], all[5], all[8]].map(\.id))
            let mine = try await store.uploads(UploadQuery(states: [.open], subject: "alice"))
            try demand(mine.map(\.id), is: [all[0], all[4], all[6]].map(\.id))
            try demand(await store.uploads(UploadQuery(subject: "nobody")), is: [])
        },
        Contract("lists are filtered by states, key, protocol and time, in any combination") { store in
            var all: [Upload] = []
            for index in 0..<12 {
                var upload = upload(TimeInterval(index), subject: index % 2 == 0 ? "alice" : nil)
                upload.issuer = index % 3 == 0 ? "key_a" : "key_b"
                upload.dialect = index % 4 == 0 ? "http" : "tus"
                try await store.insert(upload, consuming: nil)
                switch index {
                case 1, 4, 7, 10:
                    _ = try await store.complete(completed(upload), as: media(of: upload))
                    upload.state = .completed
                case 2, 5:
                    _ = try await store.end(upload.id, as: .terminated, at: start)
                    upload.state = .terminated
                case 3:
                    _ = try await store.end(upload.id, as: .expired, at: start)
                    upload.state = .expired
                default: break
                }
                all.insert(upload, at: 0)
            }
            let stateSets: [Set<Upload.State>] = [
                [], [.open], [.completed], [.open, .completed], [.terminated, .expired], Set(Upload.State.allCases),
            ]
            let after = start.addingTimeInterval(3)
            let before = start.addingTimeInterval(9)
            for states in stateSets {
                for subject in [nil, "alice"] {
                    for issuer in [nil, "key_a", "nobody"] {
                        for dialect in [nil, "tus"] {
                            for (createdAfter, createdBefore) in [(nil, nil), (after, nil), (after, before)] {
                                for cursor in [nil, all[4].id] {
                                    let query = UploadQuery(
                                        states: states,
                                        subject: subject,
                                        issuer: issuer,
                                        dialect: dialect,
                                        createdAfter: createdAfter,
                                        createdBefore: createdBefore,
                                        before: cursor,
                                        limit: 5
                                    )
                                    let expected = all.filter { upload in
                                        (states.isEmpty || states.contains(upload.state))
                                            && (subject == nil || upload.subject == subject)
                                            && (issuer == nil || upload.issuer == issuer)
                                            && (dialect == nil || upload.dialect == dialect)
                                            && upload.createdAt >= createdAfter ?? .distantPast
                                            && upload.createdAt < createdBefore ?? .distantFuture
                                            && cursor.map { upload.id.text < $0.text } ?? true
                                    }
                                    let found = try await store.uploads(query)
                                    try demand(found.map(\.id), is: expected.prefix(5).map(\.id))
                                }
                            }
                        }
                    }
                }
            }
        },
        Contract("only open uploads whose time is over are expired, the oldest first") { store in
            let late = upload(0, expiresIn: 60)
            let early = upload(1, expiresIn: 30)
            let ended = upload(2, expiresIn: 10)
            for upload in [late, early, ended, upload(3, expiresIn: nil), upload(4, expiresIn: 1000)] {
                try await store.insert(upload, consuming: nil)
            }
            _ = try await store.complete(completed(ended), as: media(of: ended))
            let moment = start.addingTimeInterval(60)
            try demand(await store.expiredUploads(at: moment, limit: 10), is: [early.id, late.id])
            try demand(await store.expiredUploads(at: moment, limit: 1), is: [early.id])
            try demand(await store.expiredUploads(at: moment.addingTimeInterval(-0.001), limit: 10), is: [early.id])
        },
        Contract("the bytes of open and completed uploads are needed, of any number of them") { store in
            var ids: [UploadID] = []
            for index in 0..<1203 {
                let upload = upload(TimeInterval(index))
                ids.append(upload.id)
                if index % 400 == 0 { try await store.insert(upload, consuming: nil) }
            }
            _ = try await store.end(ids[400], as: .terminated, at: start)
            let whole = upload(-1)
            try await store.insert(whole, consuming: nil)
            _ = try await store.complete(completed(whole), as: media(of: whole))
            let needed = try await store.needed(ids + [whole.id])
            try demand(needed, is: [ids[0], ids[800], ids[1200], whole.id])
            try demand(await store.needed([]), is: [])
        },
    ]

    static let ends: [Contract<any StateStore>] = [
        Contract("an upload ends once, and its media goes with it") { store in
            let upload = upload()
            try await store.insert(upload, consuming: nil)
            _ = try await store.complete(completed(upload), as: media(of: upload))
            let end = start.addingTimeInterval(20)
            try demand(await store.end(upload.id, as: .terminated, at: end), is: true)
            try demand(await store.media(upload.id), is: nil)
            let ended = try await store.upload(upload.id)
            try demand(ended?.state, is: .terminated)
            try demand(ended?.endedAt, is: end)
            try demand(await store.end(upload.id, as: .terminated, at: end), is: false)
            try demand(await store.end(upload.id, as: .expired, at: end), is: false)
            try demand(await store.end(UploadID.generate(at: start), as: .expired, at: end), is: false)
        },
        Contract("who decided to end an upload that is something else by now ends nothing") { store in
            let (open, whole) = (upload(0), upload(1))
            for upload in [open, whole] { try await store.insert(upload, consuming: nil) }
            _ = try await store.complete(completed(whole), as: media(of: whole))
            let last = try await store.lastEvent()
            let event = EventRecord.sample(.terminated, of: whole)
            for (id, before) in [
                (whole.id, Upload.State.open), (open.id, .completed), (whole.id, .terminated), (open.id, .expired),
            ] {
                let ends = try await store.end(
                    id,
                    from: before,
                    as: .terminated,
                    at: start,
                    received: 0,
                    recording: event
                )
                try demand(ends, is: false)
            }
            try demand(await store.upload(open.id)?.state, is: .open)
            try demand(await store.upload(whole.id)?.state, is: .completed)
            try demand(await store.media(whole.id), is: media(of: whole))
            try demand(await store.lastEvent(), is: last)
        },
        Contract("records of ended uploads are forgotten after their time, others are not") { store in
            let old = upload(0)
            let recent = upload(1)
            let whole = upload(2)
            let open = upload(3)
            for upload in [old, recent, whole, open] { try await store.insert(upload, consuming: nil) }
            _ = try await store.end(old.id, as: .expired, at: start.addingTimeInterval(10))
            _ = try await store.end(recent.id, as: .terminated, at: start.addingTimeInterval(20))
            _ = try await store.complete(completed(whole), as: media(of: whole))
            try await store.forgetEnded(before: start.addingTimeInterval(20))
            let left = try await store.uploads(UploadQuery())
            try demand(left.map(\.id), is: [open.id, whole.id, recent.id])
        },
    ]

    static let grants: [Contract<any StateStore>] = [
        Contract("a one-time grant admits one upload, and a refused one leaves no trace") { store in
            let first = upload()
            let second = upload(1)
            try await store.insert(first, consuming: grant("g1"))
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(second, consuming: grant("g1"))
                },
                is: .grantUsed
            )
            try demand(await store.upload(second.id), is: nil)
            try await store.insert(second, consuming: grant("g2"))
        },
        Contract("of many that use a one-time grant at the same time one wins") { store in
            let winners = await withTaskGroup(of: Bool.self) { group in
                for index in 0..<20 {
                    group.addTask {
                        await errorCode { () async throws(UploadError) in
                            try await store.insert(upload(TimeInterval(index)), consuming: grant("g"))
                        } == nil
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            try demand(winners, is: 1)
            try demand(await store.uploads(UploadQuery()).count, is: 1)
        },
        Contract("the use of a grant is remembered until the grant itself is long over") { store in
            try await store.insert(upload(), consuming: grant("g", expiresIn: 60))
            try await store.forgetEnded(before: start.addingTimeInterval(60))
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(upload(1), consuming: grant("g"))
                },
                is: .grantUsed
            )
            try await store.forgetEnded(before: start.addingTimeInterval(61))
            try await store.insert(upload(2), consuming: grant("g"))
        },
    ]

    static func key(_ id: String, _ byte: UInt8, at seconds: TimeInterval = 0) -> APIKey {
        APIKey(
            id: id,
            name: "the app",
            scopes: [.mint, .read],
            createdAt: start.addingTimeInterval(seconds),
            expiresAt: seconds == 0 ? nil : start.addingTimeInterval(1000),
            digest: [UInt8](repeating: byte, count: 32),
            isPreset: seconds == 0
        )
    }

    static let keys: [Contract<any StateStore>] = [
        Contract("a key is found by the digest of its secret and listed by age") { store in
            let first = key("key_b", 1)
            let second = key("key_a", 2, at: 1)
            try await store.insert(second)
            try await store.insert(first)
            try demand(await store.key(digest: first.digest), is: first)
            try demand(await store.key(digest: second.digest), is: second)
            try demand(await store.key(digest: [UInt8](repeating: 3, count: 32)), is: nil)
            try demand(await store.keys(), is: [first, second])
        },
        Contract("a second key with the same id or secret is refused") { store in
            try await store.insert(key("key_a", 1))
            for other in [key("key_a", 2), key("key_b", 1)] {
                try demand(
                    await errorCode { () async throws(UploadError) in try await store.insert(other) },
                    is: .invalidRequest
                )
            }
            try demand(await store.keys().count, is: 1)
        },
        Contract("a key is revoked once") { store in
            try await store.insert(key("key_a", 1))
            try demand(await store.revokeKey("key_a", at: start.addingTimeInterval(3)), is: true)
            try demand(await store.revokeKey("key_a", at: start.addingTimeInterval(9)), is: false)
            try demand(await store.revokeKey("key_z", at: start), is: false)
            try demand(await store.keys().first?.revokedAt, is: start.addingTimeInterval(3))
            try await store.check()
        },
        Contract("a key keeps its limits") { store in
            var limited = key("key_a", 1)
            limited.limits = KeyLimits(subjects: ["ann\u{E4}", "t:*"], buckets: ["b"], prefixes: ["a/"])
            try await store.insert(limited)
            try await store.insert(key("key_b", 2))
            try demand(await store.key(id: "key_a"), is: limited)
            try demand(await store.key(id: "key_b")?.limits, is: KeyLimits())
        },
        Contract("what was revoked since a moment is told, of each user the latest moment") { store in
            func moment(_ seconds: TimeInterval) -> Date { start.addingTimeInterval(seconds) }
            func told(_ date: Date) async throws -> Revocations {
                var revoked = try await store.revoked(since: date)
                revoked.keys.sort()
                revoked.bulk.sort { ($0.subject ?? "") < ($1.subject ?? "") }
                return revoked
            }
            try demand(await told(.distantPast), is: Revocations())
            for (id, byte) in [("key_a", UInt8(1)), ("key_b", 2), ("key_c", 3)] {
                try await store.insert(key(id, byte))
            }
            _ = try await store.revokeKey("key_a", at: moment(1))
            _ = try await store.revokeKey("key_b", at: moment(5))
            let all = Revocation(subject: nil, issuedBefore: moment(2), createdAt: moment(2))
            let anna = Revocation(subject: "anna", issuedBefore: moment(7), createdAt: moment(7))
            let older = Revocation(subject: "anna", issuedBefore: moment(3), createdAt: moment(8))
            for revocation in [all, anna, older] { try await store.insert(revocation) }
            let kept = Revocation(subject: "anna", issuedBefore: moment(7), createdAt: moment(8))
            try demand(await told(.distantPast), is: Revocations(keys: ["key_a", "key_b"], bulk: [all, kept]))
            try demand(await told(moment(3)), is: Revocations(keys: ["key_b"], bulk: [kept]))
            try demand(await told(moment(9)), is: Revocations())
        },
    ]

    static func pull(_ upload: Upload, at seconds: TimeInterval? = 0) -> PullJob {
        PullJob(
            uploadID: upload.id,
            url: "https://example.com/\(upload.id)",
            sealed: "sealed",
            contentTypes: ["video/*", "ü"],
            nextAttemptAt: seconds.map(start.addingTimeInterval)
        )
    }

    static let duties: [Contract<any StateStore>] = [
        Contract("of a time of a duty one turn is taken") { store in
            try demand(await store.takeTurn(at: .thoroughSweep, every: 3600), is: true)
            try demand(await store.takeTurn(at: .thoroughSweep, every: 3600), is: false)
            try demand(await store.takeTurn(at: .thoroughSweep, every: 0), is: true)
        }
    ]

    /// Takes the one job that is due.
    private static func claim(
        _ id: UploadID,
        for duration: TimeInterval = 3600,
        in store: any StateStore
    ) async throws -> PullJob {
        let claimed = try await store.claimPulls(limit: 9, for: duration)
        try demand(claimed.map(\.uploadID), is: [id])
        return claimed[0]
    }

    static let pulls: [Contract<any StateStore>] = [
        Contract("a pull is recorded with its upload, changed by whoever has claimed it, and closed once") { store in
            let upload = upload(length: nil)
            let new = pull(upload)
            try demand(await store.pull(upload.id), is: nil)
            try demand(await store.update(new, .working), is: false)
            try await store.insert(upload, consuming: nil, pulling: new)
            try demand(await store.upload(upload.id), is: upload)
            try demand(await store.pull(upload.id), is: new)
            try demand(await store.update(new, .working), is: false)
            var job = try await claim(upload.id, in: store)
            try demand(job.isClaimed, is: true)
            job.validator = "\"tag\""
            job.total = 12
            job.attempts = 3
            job.failures = 2
            job.furthest = 7
            job.lastError = PullJob.Reason(code: "disconnected", message: "the connection ended")
            try demand(await store.update(job, .working), is: true)
            var recorded = try await store.pull(upload.id)
            try demand(recorded?.isClaimed, is: true)
            try demand(recorded?.claim, is: job.claim)
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
            recorded?.nextAttemptAt = job.nextAttemptAt
            try demand(recorded, is: job)
            try demand(await store.update(job, .due(after: 9)), is: true)
            try demand(await store.pull(upload.id)?.isClaimed, is: false)
            try demand(await store.nextPull().map { $0 > 0 && $0 <= 9 }, is: true)
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
        },
        Contract("a pull is one process's until it is let go, or its claim is over; then its records count no more") {
            store in
            let upload = upload(length: nil)
            try await store.insert(upload, consuming: nil, pulling: pull(upload))
            var lost = try await claim(upload.id, for: 0, in: store)
            var job = try await claim(upload.id, in: store)
            try demand(await store.nextPull().map { $0 > 0 && $0 <= 3600 }, is: true)
            lost.validator = "other"
            for next in [.working, .due(after: 0), .never] as [PullJob.Next] {
                try demand(await store.update(lost, next), is: false)
            }
            try demand(await store.renewPulls([lost], for: 3600), is: [])
            try demand(await store.pull(upload.id)?.validator, is: nil)
            try demand(await store.renewPulls([job, lost], for: 0), is: [upload.id])
            // What is over and nobody else took is still its own.
            try demand(await store.renewPulls([job], for: 3600), is: [upload.id])
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
            try demand(await store.update(job, .due(after: 0)), is: true)
            job = try await claim(upload.id, in: store)
            job.sealed = ""
            job.isFailed = true
            try demand(await store.update(job, .never), is: true)
            let closed = try await store.pull(upload.id)
            try demand(closed?.nextAttemptAt, is: nil)
            try demand(closed?.isFailed, is: true)
            try demand(closed?.isClaimed, is: false)
            try demand(await store.update(job, .due(after: 0)), is: false)
            try demand(await store.renewPulls([job], for: 3600), is: [])
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
            try demand(await store.nextPull(), is: nil)
        },
        Contract("a pull under a grant that was used leaves nothing") { store in
            try await store.insert(upload(), consuming: grant("g"))
            let second = upload(1)
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(second, consuming: grant("g"), pulling: pull(second))
                },
                is: .grantUsed
            )
            try demand(await store.upload(second.id), is: nil)
            try demand(await store.pull(second.id), is: nil)
        },
        Contract("pulls that are due are taken by the time of their next attempt, each once") { store in
            let uploads = (0..<4).map { upload(Double($0), length: nil) }
            let times: [TimeInterval?] = [30, nil, 10, 20]
            for (upload, seconds) in zip(uploads, times) {
                try await store.insert(upload, consuming: nil, pulling: pull(upload, at: seconds))
            }
            let first = try await store.claimPulls(limit: 2, for: 3600)
            try demand(Set(first.map(\.uploadID)), is: [uploads[2].id, uploads[3].id])
            try demand(await store.claimPulls(limit: 2, for: 3600).map(\.uploadID), is: [uploads[0].id])
            try demand(await store.claimPulls(limit: 2, for: 3600), is: [])
        },
        Contract("a pull is closed and forgotten with its upload") { store in
            let upload = upload()
            var job = pull(upload)
            try await store.insert(upload, consuming: nil, pulling: job)
            try demand(await store.end(upload.id, as: .terminated, at: start), is: true)
            job.nextAttemptAt = nil
            job.sealed = ""
            try demand(await store.pull(upload.id), is: job)
            try await store.forgetEnded(before: start.addingTimeInterval(1))
            try demand(await store.pull(upload.id), is: nil)
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
        },
    ]
}
