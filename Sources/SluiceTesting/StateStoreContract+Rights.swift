internal import Foundation
internal import UploadModel

/// Rights to write that end with what they were given for.
extension StateStoreContract {
    static let rights: [Contract<any StateStore>] = [
        Contract("an upload is neither recorded nor completed under a right that has ended") { store in
            try await makeBuckets(in: store)
            for (index, end) in WritingRight.End.allCases.enumerated() {
                let id = end.grantID(for: "1")
                let name = ObjectName(bucket: "videos", key: "k\(index)")
                let before = object(under: id, "k\(index)", Double(10 * index))
                try await store.insert(before, consuming: nil)
                try demand(await store.hasEnded(right: id), is: false)
                // Twice, as by a repeated commit; the later end of the record stays.
                try await store.endRight(id, recordedUntil: start.addingTimeInterval(100))
                try await store.endRight(id, recordedUntil: start)
                try demand(await store.hasEnded(right: id), is: true)
                try await store.forgetEnded(before: start.addingTimeInterval(100), dead: .distantPast)
                let last = try await store.lastEvent()
                let used = try await usage(store)
                let new = object(under: id, "k\(index)", Double(10 * index + 1))
                for attempt in Attempt.allCases {
                    let code = await errorCode { () async throws(UploadError) in
                        try await make(attempt, before, new, in: store)
                    }
                    try demand(code, is: .conditionFailed)
                }
                try demand(await store.object(name), is: nil)
                try demand(await store.upload(before.id), is: before)
                try demand(await store.lastEvent(), is: last)
                try demand(await usage(store), is: used)
                // Others are not concerned.
                try await put(
                    object(under: end.grantID(for: "1", turn: 1), "k\(index)", Double(10 * index + 2)),
                    into: store
                )
                try await store.forgetEnded(before: start.addingTimeInterval(101), dead: .distantPast)
                try demand(await store.hasEnded(right: id), is: false)
            }
        },
        Contract("a right for one object ends with its completion, and others last until they are ended") { store in
            try await makeBuckets(in: store)
            for (index, end) in WritingRight.End.allCases.enumerated() {
                let id = end.grantID(for: "1")
                let key = "k\(index)"
                func next(_ seconds: Double) -> Upload { object(under: id, key, Double(10 * index) + seconds) }
                var growing = next(0)
                growing.attributes?.isAppendable = true
                try await put(growing, into: store)
                try demand(await store.hasEnded(right: id), is: false)
                let (first, open) = (next(1), next(2))
                for upload in [first, open] { try await store.insert(upload, consuming: nil) }
                try demand(await complete(first, replacing: growing.id, in: store), is: true)
                try demand(await store.hasEnded(right: id), is: end == .withObject)
                try demand(await store.object(ObjectName(bucket: "videos", key: key))?.id, is: first.id)
                for attempt in Attempt.allCases {
                    let code = await errorCode { () async throws(UploadError) in
                        try await make(attempt, open, next(3), replacing: first.id, in: store)
                    }
                    try demand(code, is: end == .withObject ? .conditionFailed : nil)
                    if end != .withObject { break }
                }
            }
        },
        Contract("uploads under other grants, and those that become no objects, have no such right") { store in
            try await makeBuckets(in: store)
            try await store.endRight("key_1", recordedUntil: start.addingTimeInterval(100))
            try await put(object("k"), into: store)
            var plain = upload(1)
            plain.principal = WritingRight.End.withObject.grantID(for: "1")
            try await store.endRight(plain.principal, recordedUntil: start.addingTimeInterval(100))
            try await put(plain, into: store)
        },
        Contract("of an end of a right and completions at the same time one comes first, for every caller") { store in
            try await makeBuckets(in: store)
            for round in 0..<20 {
                let key = "k\(round)"
                let id = WritingRight.End.whenCommitted.grantID(for: key)
                let upload = object(under: id, key, Double(round))
                try await store.insert(upload, consuming: nil)
                let name = ObjectName(bucket: "videos", key: key)
                async let isDone = errorCode { () async throws(UploadError) in
                    try await complete(upload, replacing: nil, in: store)
                }
                try await store.endRight(id, recordedUntil: start.addingTimeInterval(100))
                // What is there after the end stays as it is.
                let seen = try await store.object(name)?.id
                let code = await isDone
                try demand(await store.object(name)?.id, is: seen)
                try demand(code, is: seen == nil ? .conditionFailed : nil)
            }
        },
    ]

    private static func object(under id: String, _ key: String, _ seconds: TimeInterval) -> Upload {
        var upload = object(key, seconds)
        upload.principal = id
        upload.issuer = nil
        upload.reservedBytes = 0
        return upload
    }

    /// Every transaction that makes an upload, or an object of one.
    private enum Attempt: CaseIterable {
        case completion, creation, both
    }

    private static func make(
        _ attempt: Attempt,
        _ open: Upload,
        _ new: Upload,
        replacing replaced: UploadID? = nil,
        in store: any StateStore
    ) async throws(UploadError) {
        switch attempt {
        case .completion: _ = try await complete(open, replacing: replaced, in: store)
        case .creation: try await store.insert(new, consuming: nil)
        case .both:
            let done = finished(new)
            try await store.insertComplete(
                done,
                as: Media(of: done),
                replacing: replaced,
                consuming: nil,
                under: effectiveLimits(),
                recording: [.sample(.completed, of: done)]
            )
        }
    }
}
