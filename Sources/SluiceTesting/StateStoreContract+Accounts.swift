internal import Foundation
internal import UploadModel

/// Accounts, policies, and other fields of an upload's record.
extension StateStoreContract {
    static let alice = Account(.subject, "alice")
    static let issuer = Account(.key, "key_1")
    static let period = QuotaPeriod(around: start, length: 86400)

    static func effectiveLimits(_ change: (inout Policy) -> Void = { _ in }) -> EffectiveLimits {
        var policy = Policy()
        change(&policy)
        return EffectiveLimits(policies: [alice: policy], period: period)
    }

    static func counted(_ seconds: TimeInterval = 0, length: Int64? = 10) -> Upload {
        var upload = upload(seconds, length: length)
        upload.issuer = "key_1"
        upload.reservedBytes = length ?? 0
        return upload
    }

    static func usage(_ store: any StateStore, _ account: Account = alice) async throws(UploadError) -> Usage {
        try await store.accounts([account])[account]?.usage ?? Usage(periodStart: period.start)
    }

    static func usage(
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

    static func insert(
        _ upload: Upload,
        into store: any StateStore,
        _ effectiveLimits: EffectiveLimits = effectiveLimits()
    ) async throws(UploadError) {
        try await store.insert(upload, consuming: nil, under: effectiveLimits, recording: .sample(.created, of: upload))
    }

    static let accounts: [Contract<any StateStore>] = [
        Contract("the usage of accounts follows an upload from its creation to its end") { store in
            let whole = counted()
            let given = counted(1, length: 30)
            try await insert(whole, into: store)
            try await insert(given, into: store)
            for account in [alice, issuer] {
                try demand(await usage(store, account), is: usage(reserved: 40, open: 2, bytes: 40, uploads: 2))
            }
            _ = try await store.complete(completed(whole), as: media(of: whole))
            try demand(await usage(store), is: usage(stored: 10, reserved: 30, open: 1, bytes: 40, uploads: 2))
            try demand(await store.totals(of: .key), is: UsageTotals(openUploads: 1, storedBytes: 10))
            // 4 of 30 bytes were received: they still count, because they were sent.
            let ended = EventRecord.sample(.terminated, of: given)
            _ = try await store.end(
                given.id,
                from: .open,
                as: .terminated,
                at: start,
                received: 4,
                recording: ended
            )
            try demand(await usage(store), is: usage(stored: 10, bytes: 14, uploads: 2))
            _ = try await store.end(whole.id, as: .terminated, at: start)
            try demand(await usage(store, issuer), is: usage(bytes: 14, uploads: 2))
        },
        Contract("the totals of a kind are those of all its accounts") { store in
            try demand(await store.totals(of: .key), is: UsageTotals())
            for number in 1...3 {
                var upload = counted(Double(number))
                upload.issuer = "key_\(number)"
                try await insert(upload, into: store)
                let totals = UsageTotals(openUploads: Int64(number), storedBytes: Int64(10 * (number - 1)))
                try demand(await store.totals(of: .key), is: totals)
                try demand(await store.totals(of: .subject), is: totals)
                var whole = counted(Double(10 + number), length: 10)
                whole.issuer = "key_\(number)"
                try await insert(whole, into: store)
                _ = try await store.complete(completed(whole), as: media(of: whole))
                try demand(
                    await store.totals(of: .key),
                    is: UsageTotals(openUploads: Int64(number), storedBytes: Int64(10 * number))
                )
            }
        },
        Contract("uploads that have no record here count in the period, are checked together, and can be taken back") {
            store in
            let upload = counted()
            let twice = Accounting.sendingElsewhere([upload, upload])
            let limits = effectiveLimits { $0.periodUploads = 3 }
            try await store.charge(twice, createdAt: start, under: limits)
            for account in [alice, issuer] { try demand(await usage(store, account), is: usage(bytes: 20, uploads: 2)) }
            // No account is charged if one of them has no room.
            do {
                try await store.charge(twice, createdAt: start, under: limits)
                try demand(true, is: false)
            } catch let error as UploadError {
                guard case .quotaExceeded(let refusal) = error.code else { throw error }
                try demand(refusal.measure, is: .periodUploads)
                try demand(refusal.left, is: 1)
            }
            for account in [alice, issuer] { try demand(await usage(store, account), is: usage(bytes: 20, uploads: 2)) }
            let once = Accounting.sendingElsewhere([upload])
            try await store.charge(once.mapValues(\.negated), createdAt: start, under: nil)
            for account in [alice, issuer] { try demand(await usage(store, account), is: usage(bytes: 10, uploads: 1)) }
            try await store.charge(twice, createdAt: start, under: limits)
            try demand(await usage(store), is: usage(bytes: 30, uploads: 3))
        },
        Contract("the reservation of an upload without length grows and shrinks, and becomes its size at completion") {
            store in
            let upload = counted(length: nil)
            try await insert(upload, into: store)
            try demand(await store.reserve(100, for: upload.id, under: effectiveLimits()), is: true)
            try demand(await usage(store), is: usage(reserved: 100, open: 1, bytes: 100, uploads: 1))
            try demand(await store.reserve(8, for: upload.id, under: effectiveLimits()), is: true)
            try demand(await store.upload(upload.id)?.reservedBytes, is: 8)
            try demand(await usage(store), is: usage(reserved: 8, open: 1, bytes: 8, uploads: 1))
            _ = try await store.complete(completed(upload), as: media(of: upload))
            try demand(await usage(store), is: usage(stored: 7, bytes: 7, uploads: 1))
            try demand(await store.reserve(9, for: upload.id, under: effectiveLimits()), is: false)
        },
        Contract("parts hold their bytes until the final upload made of them is complete") { store in
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
            // Ten bytes more than the parts hold, because one part occurs twice.
            try demand(
                await errorCode { () async throws(UploadError) in
                    _ = try await store.complete(
                        done,
                        as: media(of: done),
                        replacing: nil,
                        under: effectiveLimits { $0.storedBytes = 29 },
                        recording: []
                    )
                }?.name,
                is: "quota_exceeded"
            )
            try demand(await store.upload(whole.id)?.state, is: .open)
            try demand(await usage(store), is: usage(reserved: 20, open: 1, bytes: 20, uploads: 3))
            let enough = effectiveLimits { $0.storedBytes = 30 }
            let isDone = try await store.complete(
                done,
                as: media(of: done),
                replacing: nil,
                under: enough,
                recording: []
            )
            try demand(isDone, is: true)
            try demand(await usage(store), is: usage(stored: 30, bytes: 20, uploads: 3))
            _ = try await store.end(parts[0].id, as: .expired, at: start)
            try demand(await usage(store), is: usage(stored: 30, bytes: 20, uploads: 3))
        },
        Contract("the end of a complete final upload makes its parts that still exist count again, each once") {
            store in
            func partial(_ seconds: TimeInterval, of subject: String) async throws -> Upload {
                var part = Self.partial(seconds)
                part.subject = subject
                part.reservedBytes = 10
                try await insert(part, into: store)
                var done = completed(part)
                done.length = 10
                done.reservedBytes = 10
                _ = try await store.complete(done, as: nil)
                return part
            }
            func join(_ seconds: TimeInterval, _ parts: [Upload], reserving bytes: Int64 = 0) async throws -> UploadID {
                var whole = final(seconds, of: parts)
                whole.reservedBytes = bytes
                try await insert(whole, into: store)
                var done = completed(whole)
                done.length = Int64(10 * parts.count)
                done.reservedBytes = 0
                _ = try await store.complete(done, as: media(of: done))
                return whole.id
            }
            let parts = [try await partial(0, of: "alice"), try await partial(1, of: "alice")]
            let other = try await partial(2, of: "bob")
            let bob = Account(.subject, "bob")
            let first = try await join(3, [parts[0], parts[1], parts[0], other])
            try demand(await usage(store), is: usage(stored: 40, bytes: 20, uploads: 3))
            try demand(await usage(store, bob), is: usage(bytes: 10, uploads: 1))
            // It holds the bytes of a part a second time, because the first one still has them.
            let second = try await join(4, [parts[0]], reserving: 10)
            try demand(await usage(store), is: usage(stored: 50, bytes: 20, uploads: 4))
            _ = try await store.end(parts[1].id, as: .terminated, at: start)
            _ = try await store.end(first, as: .terminated, at: start)
            try demand(await usage(store), is: usage(stored: 10, reserved: 10, bytes: 20, uploads: 4))
            try demand(await usage(store, bob), is: usage(reserved: 10, bytes: 10, uploads: 1))
            try demand(await store.upload(parts[0].id)?.reservedBytes, is: 10)
            try demand(await store.upload(parts[1].id)?.reservedBytes, is: 0)
            _ = try await store.end(second, as: .expired, at: start)
            try demand(await usage(store), is: usage(reserved: 10, bytes: 20, uploads: 4))
            // The next final upload takes them over again.
            let third = try await join(5, [parts[0]])
            try demand(await usage(store), is: usage(stored: 10, bytes: 20, uploads: 5))
            _ = try await store.end(third, as: .terminated, at: start)
            _ = try await store.end(parts[0].id, as: .expired, at: start)
            _ = try await store.end(other.id, as: .expired, at: start)
            try demand(await usage(store), is: usage(bytes: 20, uploads: 5))
            try demand(await usage(store, bob), is: usage(bytes: 10, uploads: 1))
        },
        Contract("the end of a final upload that is still open changes nothing of its parts") { store in
            var part = partial(0)
            part.reservedBytes = 10
            let whole = final(1, of: [part])
            for upload in [part, whole] { try await insert(upload, into: store) }
            _ = try await store.end(whole.id, as: .terminated, at: start)
            try demand(await usage(store), is: usage(reserved: 10, open: 1, bytes: 10, uploads: 2))
            try demand(await store.upload(part.id)?.reservedBytes, is: 10)
        },
        Contract("each limit refuses what exceeds it, says what is left, and leaves no trace") { store in
            try await insert(counted(), into: store)
            let limits: [(QuotaRefusal.Measure, Int64, (inout Policy) -> Void)] = [
                (.storedBytes, 19, { $0.storedBytes = 19 }), (.periodBytes, 12, { $0.periodBytes = 12 }),
                (.openUploads, 1, { $0.openUploads = 1 }), (.periodUploads, 1, { $0.periodUploads = 1 }),
            ]
            for (measure, limit, change) in limits {
                let next = counted(1)
                let code = await errorCode { () async throws(UploadError) in
                    try await insert(next, into: store, effectiveLimits(change))
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
            try await insert(counted(1), into: store, effectiveLimits { $0.storedBytes = 20 })
        },
        Contract("uploads whose total length overflows are refused") { store in
            try await insert(counted(length: .max), into: store)
            let next = counted(1, length: 1)
            let code = await errorCode { () async throws(UploadError) in try await insert(next, into: store) }
            try demand(code, is: .tooLarge(limit: 0))
            try demand(await store.upload(next.id), is: nil)
        },
        Contract("counts of the last period end with it") { store in
            try await insert(counted(), into: store)
            let next = EffectiveLimits(
                policies: [alice: effectiveLimits { $0.periodUploads = 1 }.policies[alice] ?? Policy()],
                period: QuotaPeriod(around: start.addingTimeInterval(86400), length: 86400)
            )
            let upload = counted(86400)
            try await insert(upload, into: store, next)
            try demand(await usage(store).periodUploads, is: 1)
            try demand(await usage(store).periodBytes, is: 10)
            try demand(await usage(store).openUploads, is: 2)
        },
        Contract("of many concurrent creations only as many are admitted as there is room for") { store in
            let admitted = await withTaskGroup(of: Bool.self) { group in
                for index in 0..<20 {
                    group.addTask {
                        await errorCode { () async throws(UploadError) in
                            try await insert(
                                counted(TimeInterval(index)),
                                into: store,
                                effectiveLimits { $0.storedBytes = 75 }
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
        Contract("an app-assigned name is unique and finds its upload") { store in
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
                await errorCode { () async throws(UploadError) in try await insert(taken, into: store) },
                is: .rejected
            )
            try demand(await store.upload(second.id), is: nil)
        },
        Contract("metadata of uploads and media are replaced together") { store in
            let upload = upload()
            try await store.insert(upload, consuming: nil)
            let metadata = UploadMetadata(describing: ["filename": "b.mp4", "filetype": "video/mp4", "x": "1"])
            func set(from before: UploadMetadata) async throws(UploadError) -> Bool {
                try await store.setMetadata(
                    of: upload.id,
                    from: before,
                    to: metadata,
                    updatedAt: start.addingTimeInterval(3),
                    recording: .sample(.updated, of: upload)
                )
            }
            try demand(await set(from: upload.metadata), is: true)
            try demand(await store.upload(upload.id)?.metadata, is: metadata)
            // They were changed since they were read.
            try demand(
                await errorCode { () async throws(UploadError) in try await set(from: upload.metadata) },
                is: .busy
            )
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.complete(completed(upload), as: media(of: upload))
                },
                is: .busy
            )
            try demand(await store.upload(upload.id)?.state, is: .open)
            var changed = completed(upload)
            changed.metadata = metadata
            _ = try await store.complete(changed, as: media(of: changed))
            try demand(await set(from: metadata), is: true)
            try demand(await store.media(upload.id)?.metadata, is: metadata.values)
            try demand(await store.media(upload.id)?.filename, is: "b.mp4")
            _ = try await store.end(upload.id, as: .terminated, at: start)
            try demand(await set(from: metadata), is: false)
        },
    ]
}
