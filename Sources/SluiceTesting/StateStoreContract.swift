internal import Digests
internal import Foundation
package import UploadCore

/// What every `StateStore` has to do.
package enum StateStoreContract {
    package static let all: [Contract<any StateStore>] =
        uploads + concatenations + lists + ends + grants + accounts + events + keys + pulls

    private static let start = Date(timeIntervalSince1970: 1_750_000_000.123)

    private static func upload(
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

    private static func media(of upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Media {
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

    private static func completed(_ upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Upload {
        var completed = upload
        completed.state = .completed
        completed.length = upload.length ?? 7
        completed.offset = completed.length ?? 0
        completed.expiresAt = nil
        completed.updatedAt = time
        completed.endedAt = time
        return completed
    }

    private static func grant(_ id: String, expiresIn: TimeInterval = 60) -> Grant {
        Grant(id: id, subject: nil, expiresAt: start.addingTimeInterval(expiresIn), isOneTime: true)
    }

    /// `nil` if nothing was thrown.
    private static func code<Value>(_ body: () async throws(UploadError) -> Value) async -> UploadError.Code? {
        do throws(UploadError) {
            _ = try await body()
            return nil
        } catch {
            return error.code
        }
    }

    private static let uploads: [Contract<any StateStore>] = [
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

    private static func partial(_ seconds: TimeInterval) -> Upload {
        var upload = upload(seconds)
        upload.concatenation = Concatenation(.partial, raw: "partial")
        return upload
    }

    private static func final(_ seconds: TimeInterval, of parts: [Upload]) -> Upload {
        var upload = upload(seconds, length: nil)
        let urls = parts.map { "/files/\($0.id)" }.joined(separator: " ")
        upload.concatenation = Concatenation(.final(parts: parts.map(\.id)), raw: "final;\(urls)")
        return upload
    }

    private static let concatenations: [Contract<any StateStore>] = [
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

    private static let lists: [Contract<any StateStore>] = [
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

    private static let ends: [Contract<any StateStore>] = [
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

    private static let grants: [Contract<any StateStore>] = [
        Contract("a one-time grant admits one upload, and a refused one leaves no trace") { store in
            let first = upload()
            let second = upload(1)
            try await store.insert(first, consuming: grant("g1"))
            try demand(
                await code { () async throws(UploadError) in
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
                        await code { () async throws(UploadError) in
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
                await code { () async throws(UploadError) in
                    try await store.insert(upload(1), consuming: grant("g"))
                },
                is: .grantUsed
            )
            try await store.forgetEnded(before: start.addingTimeInterval(61))
            try await store.insert(upload(2), consuming: grant("g"))
        },
    ]

    private static let alice = Account(.subject, "alice")
    private static let issuer = Account(.key, "key_1")
    private static let period = QuotaPeriod(around: start, length: 86400)

    private static func terms(_ change: (inout Policy) -> Void = { _ in }) -> QuotaTerms {
        var policy = Policy()
        change(&policy)
        return QuotaTerms(policies: [alice: policy], period: period)
    }

    private static func counted(_ seconds: TimeInterval = 0, length: Int64? = 10) -> Upload {
        var upload = upload(seconds, length: length)
        upload.issuer = "key_1"
        upload.reservedBytes = length ?? 0
        return upload
    }

    private static func usage(_ store: any StateStore, _ account: Account = alice) async throws(UploadError) -> Usage {
        try await store.accounts([account])[account]?.usage ?? Usage(periodStart: period.start)
    }

    private static func usage(
        stored: Int64 = 0,
        reserved: Int64 = 0,
        open: Int64 = 0,
        bytes: Int64 = 0,
        uploads: Int64 = 0
    ) -> Usage {
        var usage = Usage(periodStart: period.start)
        usage.storedBytes = stored
        usage.reservedBytes = reserved
        usage.openUploads = open
        usage.periodBytes = bytes
        usage.periodUploads = uploads
        return usage
    }

    private static func insert(
        _ upload: Upload,
        into store: any StateStore,
        _ terms: QuotaTerms = terms()
    ) async throws(UploadError) {
        try await store.insert(upload, consuming: nil, under: terms, recording: .sample(.created, of: upload))
    }

    private static let accounts: [Contract<any StateStore>] = [
        Contract("what accounts use follows an upload from its creation to its end") { store in
            let whole = counted()
            let given = counted(1, length: 30)
            try await insert(whole, into: store)
            try await insert(given, into: store)
            for account in [alice, issuer] {
                try demand(await usage(store, account), is: usage(reserved: 40, open: 2, bytes: 40, uploads: 2))
            }
            _ = try await store.complete(completed(whole), as: media(of: whole))
            try demand(await usage(store), is: usage(stored: 10, reserved: 30, open: 1, bytes: 40, uploads: 2))
            // Of 30 bytes 4 came: they have been sent.
            let ended = EventRecord.sample(.terminated, of: given)
            _ = try await store.end(given.id, as: .terminated, at: start, received: 4, recording: ended)
            try demand(await usage(store), is: usage(stored: 10, bytes: 14, uploads: 2))
            _ = try await store.end(whole.id, as: .terminated, at: start)
            try demand(await usage(store, issuer), is: usage(bytes: 14, uploads: 2))
        },
        Contract("what an upload without length reserves grows and shrinks, and is settled when it is complete") {
            store in
            let upload = counted(length: nil)
            try await insert(upload, into: store)
            try demand(await store.reserve(100, for: upload.id, under: terms()), is: true)
            try demand(await usage(store), is: usage(reserved: 100, open: 1, bytes: 100, uploads: 1))
            try demand(await store.reserve(8, for: upload.id, under: terms()), is: true)
            try demand(await store.upload(upload.id)?.reservedBytes, is: 8)
            try demand(await usage(store), is: usage(reserved: 8, open: 1, bytes: 8, uploads: 1))
            _ = try await store.complete(completed(upload), as: media(of: upload))
            try demand(await usage(store), is: usage(stored: 7, bytes: 7, uploads: 1))
            try demand(await store.reserve(9, for: upload.id, under: terms()), is: false)
        },
        Contract("parts hold bytes until the final upload that is made of them is complete") { store in
            let parts = [partial(0), partial(1)].map { part in
                var part = part
                part.reservedBytes = 10
                return part
            }
            let whole = final(2, of: [parts[0], parts[1], parts[0]])
            for upload in parts + [whole] { try await insert(upload, into: store) }
            for part in parts {
                var done = completed(part)
                done.reservedBytes = 10
                _ = try await store.complete(done, as: nil)
            }
            try demand(await usage(store), is: usage(reserved: 20, open: 1, bytes: 20, uploads: 3))
            var done = completed(whole)
            done.length = 30
            // Ten bytes more than the parts hold, because one stands twice.
            try demand(
                await code { () async throws(UploadError) in
                    _ = try await store.complete(
                        done,
                        as: media(of: done),
                        under: terms { $0.storedBytes = 29 },
                        recording: []
                    )
                }?.name,
                is: "quota_exceeded"
            )
            try demand(await store.upload(whole.id)?.state, is: .open)
            try demand(await usage(store), is: usage(reserved: 20, open: 1, bytes: 20, uploads: 3))
            let enough = terms { $0.storedBytes = 30 }
            try demand(await store.complete(done, as: media(of: done), under: enough, recording: []), is: true)
            try demand(await usage(store), is: usage(stored: 30, bytes: 20, uploads: 3))
            _ = try await store.end(parts[0].id, as: .expired, at: start)
            try demand(await usage(store), is: usage(stored: 30, bytes: 20, uploads: 3))
        },
        Contract("each limit refuses what goes beyond it, says what is left, and leaves no trace") { store in
            try await insert(counted(), into: store)
            let limits: [(QuotaRefusal.Measure, Int64, (inout Policy) -> Void)] = [
                (.storedBytes, 19, { $0.storedBytes = 19 }), (.periodBytes, 12, { $0.periodBytes = 12 }),
                (.openUploads, 1, { $0.openUploads = 1 }), (.periodUploads, 1, { $0.periodUploads = 1 }),
            ]
            for (measure, limit, change) in limits {
                let next = counted(1)
                let code = await code { () async throws(UploadError) in
                    try await insert(next, into: store, terms(change))
                }
                let isBytes = measure == .storedBytes || measure == .periodBytes
                let refusal = QuotaRefusal(
                    account: alice,
                    measure: measure,
                    limit: limit,
                    used: isBytes ? 10 : 1,
                    wanted: isBytes ? 10 : 1,
                    resetsAt: measure.isPeriodic ? period.end : nil
                )
                try demand(code, is: .quotaExceeded(refusal))
                try demand(await store.upload(next.id), is: nil)
                try demand(await usage(store), is: usage(reserved: 10, open: 1, bytes: 10, uploads: 1))
            }
            try await insert(counted(1), into: store, terms { $0.storedBytes = 20 })
        },
        Contract("what the last period counted is over with it") { store in
            try await insert(counted(), into: store)
            let next = QuotaTerms(
                policies: [alice: terms { $0.periodUploads = 1 }.policies[alice] ?? Policy()],
                period: QuotaPeriod(around: start.addingTimeInterval(86400), length: 86400)
            )
            let upload = counted(86400)
            try await insert(upload, into: store, next)
            try demand(await usage(store).periodUploads, is: 1)
            try demand(await usage(store).periodBytes, is: 10)
            try demand(await usage(store).openUploads, is: 2)
        },
        Contract("of many that are created at the same time only as many are admitted as there is room for") { store in
            let admitted = await withTaskGroup(of: Bool.self) { group in
                for index in 0..<20 {
                    group.addTask {
                        await code { () async throws(UploadError) in
                            try await insert(
                                counted(TimeInterval(index)),
                                into: store,
                                terms { $0.storedBytes = 75 }
                            )
                        } == nil
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            try demand(admitted, is: 7)
            try demand(await usage(store).reservedBytes, is: 70)
        },
        Contract("an account can have a policy of its own, before and after its first use") { store in
            var policy = Policy()
            policy.storedBytes = 5
            policy.contentTypes = ["image/*"]
            policy.checksContent = true
            try await store.setPolicy(policy, of: alice, at: period.start)
            try demand(await store.accounts([alice, issuer])[alice]?.policy, is: policy)
            try await insert(counted(), into: store)
            try demand(await store.accounts([alice])[alice]?.policy, is: policy)
            try await store.setPolicy(nil, of: alice, at: period.start)
            try demand(await store.accounts([alice])[alice]?.policy, is: nil)
            try demand(await usage(store).reservedBytes, is: 10)
        },
        Contract("a name that the app gave is unique and leads to its upload") { store in
            var named = upload()
            named.alias = "a/ü"
            named.key = "videos/1.mp4"
            try await insert(named, into: store)
            try demand(await store.upload(named.id), is: named)
            try demand(await store.upload(alias: "a/ü"), is: named.id)
            try demand(await store.upload(alias: "b"), is: nil)
            var second = upload(1)
            second.alias = "a/ü"
            let taken = second
            try demand(
                await code { () async throws(UploadError) in try await insert(taken, into: store) },
                is: .rejected
            )
            try demand(await store.upload(second.id), is: nil)
        },
        Contract("metadata of uploads and media are replaced together") { store in
            let upload = upload()
            try await store.insert(upload, consuming: nil)
            let metadata = UploadMetadata(describing: ["filename": "b.mp4", "filetype": "video/mp4", "x": "1"])
            func set() async throws(UploadError) -> Bool {
                try await store.setMetadata(
                    of: upload.id,
                    to: metadata,
                    updatedAt: start.addingTimeInterval(3),
                    recording: .sample(.updated, of: upload)
                )
            }
            try demand(await set(), is: true)
            try demand(await store.upload(upload.id)?.metadata, is: metadata)
            _ = try await store.complete(completed(upload), as: media(of: upload))
            try demand(await set(), is: true)
            try demand(await store.media(upload.id)?.metadata, is: metadata.values)
            try demand(await store.media(upload.id)?.filename, is: "b.mp4")
            _ = try await store.end(upload.id, as: .terminated, at: start)
            try demand(await set(), is: false)
        },
    ]

    private static let events: [Contract<any StateStore>] = [
        Contract("events are recorded with what happened, in order, and read back as they were") { store in
            var request = EventRecord.sample(.created, of: upload())
            request.request = RequestInfo(
                method: "POST",
                uri: "/files",
                remoteAddress: "::1",
                fields: [.init(name: "X", value: "ü")]
            )
            var expected: [EventRecord] = []
            for (index, kind) in EventRecord.Kind.allCases.enumerated() {
                var event = EventRecord.sample(kind, of: index == 0 ? request.upload : final(1, of: [partial(0)]))
                event.request = index == 0 ? request.request : nil
                event.delivery = index == 1 ? nil : event.delivery
                try await store.record(event)
                event.sequence = Int64(index + 1)
                expected.append(event)
            }
            try demand(await store.events(EventQuery(after: 0)), is: expected)
            try demand(await store.events(EventQuery(after: 2, limit: 2)), is: Array(expected[2..<4]))
            try demand(await store.events(EventQuery(after: 0, upload: request.upload.id)), is: [expected[0]])
            try demand(await store.events(EventQuery(after: 0, subject: "nobody")), is: [])
            try demand(await store.events(EventQuery(after: 1, through: 4)), is: Array(expected[1..<4]))
            let some = expected.filter { [.completed, .updated].contains($0.kind) }
            try demand(await store.events(EventQuery(after: 0, kinds: [.completed, .updated])), is: some)
            try demand(await store.events(EventQuery(after: 0, kinds: [])), is: [])
            let last = expected[5]
            let later = EventQuery(after: 1, through: 6, upload: last.upload.id, kinds: [last.kind, .created])
            try demand(await store.events(later), is: [last])
            try demand(await store.lastEvent(), is: 6)
        },
        Contract("a step that is refused records no event") { store in
            let upload = counted()
            _ = await code { () async throws(UploadError) in
                try await insert(upload, into: store, terms { $0.openUploads = 0 })
            }
            _ = try await store.end(upload.id, as: .terminated, at: start)
            _ = try await store.complete(completed(upload), as: media(of: upload))
            try demand(await store.events(EventQuery(after: 0)), is: [])
        },
        Contract("progress that was not told yet gives way to newer progress, if nothing happened since") { store in
            var upload = upload()
            for offset in [1, 2, 3] as [Int64] {
                upload.offset = offset
                try await store.record(.sample(.progress, of: upload))
            }
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [3])
            try await store.settle(1, as: .retry(at: start, error: "no"), at: start)
            upload.offset = 4
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).map(\.upload.offset), is: [3, 4])
            try await store.record(.sample(.updated, of: upload))
            try await store.record(.sample(.progress, of: upload))
            try demand(await store.events(EventQuery(after: 0)).count, is: 4)
        },
        Contract("deliveries are due in the order of their upload, and settled once") { store in
            let first = upload()
            let second = upload(1)
            for upload in [first, second] {
                try await store.record(.sample(.created, of: upload))
                try await store.record(.sample(.completed, of: upload))
            }
            let later = start.addingTimeInterval(100)
            func due(_ now: Date) async throws(UploadError) -> [Int64] {
                try await store.dueDeliveries(at: now, limit: 10).map(\.sequence)
            }
            try demand(await due(later), is: [1, 3])
            try demand(await store.dueDeliveries(at: later, limit: 1).map(\.sequence), is: [1])
            try await store.settle(1, as: .retry(at: later.addingTimeInterval(50), error: "503"), at: later)
            try demand(await due(later), is: [3])
            try await store.settle(3, as: .delivered, at: later)
            try demand(await due(later), is: [4])
            try await store.settle(4, as: .delivered, at: later)
            try demand(await store.nextDelivery(), is: later.addingTimeInterval(50))
            try await store.settle(1, as: .dead(error: "gone"), at: later)
            // Given up: what came after it is not held back for ever.
            try demand(await due(later), is: [2])
            try await store.settle(1, as: .delivered, at: later)
            let dead = try await store.deliveries(DeliveryQuery(state: .dead))
            try demand(dead.map(\.sequence), is: [1])
            try demand(dead.first?.delivery?.attempts, is: 2)
            try demand(dead.first?.delivery?.lastError, is: "gone")
            try demand(await store.deliveries(DeliveryQuery(limit: 2)).map(\.sequence), is: [4, 3])
            try demand(await store.deliveries(DeliveryQuery(before: 3, limit: 9)).map(\.sequence), is: [2, 1])
        },
        Contract("deliveries are made again, some or all that are dead") { store in
            let upload = upload()
            var ids: [String] = []
            for sequence in 1...3 as ClosedRange<Int64> {
                let event = EventRecord.sample(.updated, of: upload)
                ids.append(event.id)
                try await store.record(event)
                try await store.settle(sequence, as: sequence == 3 ? .delivered : .dead(error: "x"), at: start)
            }
            try demand(await store.nextDelivery(), is: nil)
            try demand(await store.redeliver([ids[2], "msg_unknown"], at: start), is: 1)
            try demand(await store.dueDeliveries(at: start, limit: 9).map(\.sequence), is: [3])
            try demand(await store.redeliver(nil, at: start), is: 2)
            // The first of them goes before the one that was due.
            try demand(await store.dueDeliveries(at: start, limit: 9).map(\.sequence), is: [1])
            try demand(await store.deliveries(DeliveryQuery(state: .pending)).map(\.sequence), is: [3, 2, 1])
            try demand(await store.deliveries(DeliveryQuery()).map(\.delivery?.attempts), is: [0, 0, 0])
        },
        Contract("events are forgotten after their time, unless somebody still has to be told") { store in
            let upload = upload()
            for sequence in 1...4 as ClosedRange<Int64> {
                var event = EventRecord.sample(.updated, of: upload)
                if sequence == 1 { event.delivery = nil }
                try await store.record(event)
            }
            try await store.settle(2, as: .delivered, at: start)
            try await store.settle(3, as: .dead(error: "x"), at: start)
            try await store.forgetEnded(before: start)
            try demand(await store.events(EventQuery(after: 0)).count, is: 4)
            try await store.forgetEnded(before: start.addingTimeInterval(1))
            try demand(await store.events(EventQuery(after: 0)).map(\.sequence), is: [3, 4])
            try demand(await store.lastEvent(), is: 4)
        },
    ]

    private static func key(_ id: String, _ byte: UInt8, at seconds: TimeInterval = 0) -> APIKey {
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

    private static let keys: [Contract<any StateStore>] = [
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
                    await code { () async throws(UploadError) in try await store.insert(other) },
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
    ]

    private static func pull(_ upload: Upload, at seconds: TimeInterval? = 0) -> PullJob {
        PullJob(
            uploadID: upload.id,
            url: "https://example.com/\(upload.id)",
            sealed: "sealed",
            contentTypes: ["video/*", "ü"],
            nextAttemptAt: seconds.map(start.addingTimeInterval)
        )
    }

    private static let pulls: [Contract<any StateStore>] = [
        Contract("a pull is recorded with its upload, changed, and closed once") { store in
            let upload = upload(length: nil)
            var job = pull(upload)
            try demand(await store.pull(upload.id), is: nil)
            try demand(await store.update(job), is: false)
            try await store.insert(upload, consuming: nil, pulling: job)
            try demand(await store.upload(upload.id), is: upload)
            try demand(await store.pull(upload.id), is: job)
            job.validator = "\"tag\""
            job.total = 12
            job.attempts = 3
            job.failures = 2
            job.furthest = 7
            job.nextAttemptAt = start.addingTimeInterval(9)
            job.lastError = PullJob.Reason(code: "disconnected", message: "the connection ended")
            try demand(await store.update(job), is: true)
            try demand(await store.pull(upload.id), is: job)
            job.sealed = ""
            job.nextAttemptAt = nil
            job.isFailed = true
            try demand(await store.update(job), is: true)
            try demand(await store.pull(upload.id), is: job)
            try demand(await store.pendingPulls(limit: 10), is: [])
            var late = job
            late.nextAttemptAt = start
            try demand(await store.update(late), is: false)
            try demand(await store.pull(upload.id), is: job)
        },
        Contract("a pull under a grant that was used leaves nothing") { store in
            try await store.insert(upload(), consuming: grant("g"))
            let second = upload(1)
            try demand(
                await code { () async throws(UploadError) in
                    try await store.insert(second, consuming: grant("g"), pulling: pull(second))
                },
                is: .grantUsed
            )
            try demand(await store.upload(second.id), is: nil)
            try demand(await store.pull(second.id), is: nil)
        },
        Contract("pulls that are not over come by the time of their next attempt") { store in
            let uploads = (0..<4).map { upload(Double($0), length: nil) }
            let times: [TimeInterval?] = [30, nil, 10, 20]
            for (upload, seconds) in zip(uploads, times) {
                try await store.insert(upload, consuming: nil, pulling: pull(upload, at: seconds))
            }
            try demand(
                await store.pendingPulls(limit: 10).map(\.uploadID),
                is: [uploads[2].id, uploads[3].id, uploads[0].id]
            )
            try demand(await store.pendingPulls(limit: 2).map(\.uploadID), is: [uploads[2].id, uploads[3].id])
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
            try demand(await store.pendingPulls(limit: 10), is: [])
        },
    ]
}
