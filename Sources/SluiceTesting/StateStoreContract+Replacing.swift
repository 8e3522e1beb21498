internal import Foundation
internal import UploadCore
internal import UploadModel

/// Objects that replace others.
extension StateStoreContract {
    private static let name = ObjectName(bucket: "videos", key: "k")

    /// Completes an upload as its media, replacing `replaced`.
    static func complete(
        _ upload: Upload,
        replacing replaced: UploadID?,
        in store: any StateStore,
        under effectiveLimits: EffectiveLimits = effectiveLimits()
    ) async throws(UploadError) -> Bool {
        let done = finished(upload)
        return try await store.complete(
            done,
            as: Media(of: done),
            replacing: replaced,
            under: effectiveLimits,
            recording: [.sample(.completed, of: done)]
        )
    }

    static let replacements: [Contract<any StateStore>] = [
        Contract("an object replaces the expected one, which ends") { store in
            try await makeBuckets(in: store)
            var old = object("k")
            old.subject = "bob"
            let new = object("k", 1, length: 30)
            try await put(old, into: store)
            try await insert(new, into: store)
            let done = finished(new, at: start.addingTimeInterval(7))
            let events = [EventRecord.sample(.completed, of: done), .sample(.terminated, of: old)]
            let before = try await store.lastEvent()
            let isFirst = try await store.complete(
                done,
                as: Media(of: done),
                replacing: old.id,
                under: effectiveLimits(),
                recording: events
            )
            try demand(isFirst, is: true)
            try demand(await store.object(name), is: Media(of: done))
            try demand(await store.upload(new.id), is: done)
            try demand(await store.media(old.id), is: nil)
            let ended = try await store.upload(old.id)
            try demand(ended?.state, is: .terminated)
            try demand(ended?.endedAt, is: done.updatedAt)
            try demand(ended?.updatedAt, is: done.updatedAt)
            try demand(ended?.reservedBytes, is: 0)
            try demand(await store.needed([old.id, new.id]), is: [new.id])
            try demand(await store.end(old.id, as: .terminated, at: start), is: false)
            // The events that the caller passes, and no other.
            let recorded = try await store.events(EventQuery(after: before))
            try demand(recorded.map(\.id), is: events.map(\.id))
            let bob = Account(.subject, "bob")
            try demand(await usage(store, bob), is: usage(bytes: 10, uploads: 1))
            try demand(await usage(store), is: usage(stored: 30, bytes: 30, uploads: 1))
            try demand(await usage(store, issuer), is: usage(stored: 30, bytes: 40, uploads: 2))
            try await store.forgetEnded(before: start.addingTimeInterval(8), dead: .distantPast)
            try demand(await store.upload(old.id), is: nil)
            try demand(await store.object(name)?.id, is: new.id)
        },
        Contract("a completion that expects a different current object is refused") { store in
            try await makeBuckets(["videos", "images"], in: store)
            let (old, other) = (object("k"), object("k", in: "images", 1))
            for upload in [old, other] { try await put(upload, into: store) }
            let (taken, free) = (object("k", 2), object("free", 3))
            var plain = object("k", 4)
            plain.bucket = nil
            for upload in [taken, free, plain] { try await insert(upload, into: store) }
            let used = try await usage(store)
            let last = try await store.lastEvent()
            let unknown = UploadID.generate(at: start)
            let wrong: [(Upload, UploadID?)] = [
                (taken, nil), (taken, other.id), (taken, unknown), (taken, taken.id), (free, old.id), (free, unknown),
                (plain, old.id),
            ]
            for (upload, replaced) in wrong {
                try demand(
                    await errorCode { () async throws(UploadError) in
                        try await complete(upload, replacing: replaced, in: store)
                    },
                    is: .busy
                )
                try demand(await store.upload(upload.id), is: upload)
                try demand(await store.media(upload.id), is: nil)
            }
            // Without media, nothing can be replaced.
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.complete(finished(taken), as: nil, replacing: old.id)
                },
                is: .busy
            )
            try demand(await store.object(name)?.id, is: old.id)
            try demand(await store.upload(old.id)?.state, is: .completed)
            try demand(await usage(store), is: used)
            try demand(await store.lastEvent(), is: last)
            // An ended object cannot be replaced, and its name is free.
            _ = try await store.end(old.id, as: .terminated, at: start)
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await complete(taken, replacing: old.id, in: store)
                },
                is: .busy
            )
            try demand(await complete(taken, replacing: nil, in: store), is: true)
            try demand(await complete(plain, replacing: nil, in: store), is: true)
            try demand(await store.object(name)?.id, is: taken.id)
            // If the upload is no longer open, the result says so.
            try demand(await complete(taken, replacing: nil, in: store), is: false)
            try demand(await complete(old, replacing: taken.id, in: store), is: false)
        },
        Contract("a replaced object makes room for its replacement, and for nothing else") { store in
            try await makeBuckets(in: store)
            let old = object("k", length: 5)
            try await put(old, into: store)
            // Each has seven bytes when complete.
            let (new, beside) = (object("k", 1, length: nil), object("b", 2, length: nil))
            for upload in [new, beside] { try await insert(upload, into: store) }
            for (upload, replaced, limit) in [(beside, nil, 11), (new, old.id, 6)] as [(Upload, UploadID?, Int64)] {
                try demand(
                    await errorCode { () async throws(UploadError) in
                        try await complete(
                            upload,
                            replacing: replaced,
                            in: store,
                            under: effectiveLimits { $0.storedBytes = limit }
                        )
                    }?.name,
                    is: "quota_exceeded"
                )
            }
            try demand(await store.object(name)?.id, is: old.id)
            try demand(await usage(store), is: usage(stored: 5, open: 2, bytes: 5, uploads: 3))
            let enough = effectiveLimits { $0.storedBytes = 7 }
            try demand(await complete(new, replacing: old.id, in: store, under: enough), is: true)
            try demand(await usage(store), is: usage(stored: 7, open: 1, bytes: 12, uploads: 3))
        },
        Contract("of concurrent completions with one name one succeeds, and the others are asked to try again") {
            store in
            try await makeBuckets(in: store)
            var current: UploadID?
            for round in 0..<4 {
                let uploads = (0..<6).map { object("k", TimeInterval(round * 10 + $0)) }
                for upload in uploads { try await insert(upload, into: store) }
                let replaced = current
                let codes = await withTaskGroup(of: (UploadID, UploadError.Code?).self) { group in
                    for upload in uploads {
                        group.addTask {
                            let code = await errorCode { () async throws(UploadError) in
                                try await complete(upload, replacing: replaced, in: store)
                            }
                            return (upload.id, code)
                        }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                let winners = codes.filter { $0.1 == nil }.map(\.0)
                try demand(winners.count, is: 1)
                try demand(codes.count { $0.1 == .busy }, is: 5)
                try demand(await store.object(name)?.id, is: winners.first)
                if let replaced { try demand(await store.upload(replaced)?.state, is: .terminated) }
                current = winners.first
            }
            try demand(
                await store.objects(ObjectQuery(bucket: "videos", limit: 9)).map(\.id),
                is: [current].compactMap { $0 }
            )
            try demand(await usage(store).storedBytes, is: 10)
        },
        Contract("of concurrent calls that end and replace an object one succeeds") { store in
            try await makeBuckets(in: store)
            for round in 0..<8 {
                let (old, new) = (object("k", TimeInterval(2 * round)), object("k", TimeInterval(2 * round + 1)))
                try await put(old, into: store)
                try await insert(new, into: store)
                async let ending = store.end(old.id, as: .terminated, at: start)
                let refusal = await errorCode { () async throws(UploadError) in
                    try await complete(new, replacing: old.id, in: store)
                }
                try demand(await ending, is: refusal == .busy)
                try demand(refusal == nil || refusal == .busy, is: true)
                try demand(await store.object(name)?.id, is: refusal == nil ? new.id : nil)
                try demand(await store.end(new.id, as: .terminated, at: start), is: true)
                try demand(await usage(store).storedBytes, is: 0)
                try demand(await usage(store).openUploads, is: 0)
            }
        },
    ]
}
