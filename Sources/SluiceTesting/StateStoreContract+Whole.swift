internal import Digests
internal import Foundation
internal import UploadCore
internal import UploadModel

/// Uploads that are complete when they are recorded.
extension StateStoreContract {
    private static let name = ObjectName(bucket: "videos", key: "k")

    private static func insertComplete(
        _ upload: Upload,
        replacing replaced: UploadID? = nil,
        consuming grant: Grant? = nil,
        under effectiveLimits: EffectiveLimits = effectiveLimits(),
        also: [EventRecord] = [],
        into store: any StateStore
    ) async throws(UploadError) {
        let done = finished(upload)
        try await store.insertComplete(
            done,
            as: Media(of: done, digests: [.md5: [1]]),
            replacing: replaced,
            consuming: grant,
            under: effectiveLimits,
            recording: [.sample(.created, of: upload), .sample(.completed, of: done)] + also
        )
    }

    /// Demands that recording an upload fails with an error of this name and leaves no trace.
    private static func demandRefusal(
        of upload: Upload,
        by store: any StateStore,
        as code: String,
        line: UInt = #line,
        _ insert: () async throws(UploadError) -> Void
    ) async throws {
        let (alice, key) = (try await usage(store), try await usage(store, issuer))
        let last = try await store.lastEvent()
        try demand(await errorCode(insert)?.name, is: code, line: line)
        try demand(await store.upload(upload.id), is: nil, line: line)
        try demand(await store.media(upload.id), is: nil, line: line)
        try demand(await usage(store), is: alice, line: line)
        try demand(await usage(store, issuer), is: key, line: line)
        try demand(await store.lastEvent(), is: last, line: line)
    }

    static let wholes: [Contract<any StateStore>] = [
        Contract("a whole upload is recorded like one that was created and completed") { store in
            let (slow, whole) = (counted(), counted(1))
            try await put(slow, into: store)
            let (before, last) = (try await usage(store), try await store.lastEvent())
            try demand(before, is: usage(stored: 10, bytes: 10, uploads: 1))
            try await insertComplete(whole, into: store)
            try demand(await store.upload(whole.id), is: finished(whole))
            try demand(await store.media(whole.id), is: Media(of: finished(whole), digests: [.md5: [1]]))
            for account in [alice, issuer] {
                try demand(await usage(store, account), is: usage(stored: 20, bytes: 20, uploads: 2))
            }
            let events = try await store.events(EventQuery(after: last))
            try demand(events.map(\.kind), is: [.created, .completed])
            try demand(events.map(\.upload.state), is: [.open, .completed])
            try demand(await store.needed([whole.id]), is: [whole.id])
            try demand(await store.uploads(UploadQuery(states: [.completed], limit: 1)).map(\.id), is: [whole.id])
            try demand(await store.complete(completed(whole), as: media(of: whole)), is: false)
            try demand(await store.end(whole.id, as: .terminated, at: start), is: true)
            try demand(await usage(store), is: usage(stored: 10, bytes: 20, uploads: 2))
        },
        Contract("a whole upload uses its grant, and a used grant admits none") { store in
            let (first, second) = (counted(), counted(1))
            try await insertComplete(first, consuming: grant("g"), into: store)
            try await demandRefusal(of: second, by: store, as: "grant_used") { () async throws(UploadError) in
                try await insertComplete(second, consuming: grant("g"), into: store)
            }
            try await demandRefusal(of: second, by: store, as: "grant_used") { () async throws(UploadError) in
                try await store.insert(
                    second,
                    consuming: grant("g"),
                    under: effectiveLimits(),
                    recording: .sample(.created, of: second)
                )
            }
        },
        Contract("each limit refuses a whole upload as it would refuse its creation, and the grant stays unused") {
            store in
            try await insert(counted(), into: store)
            let next = counted(1)
            let limits: [(inout Policy) -> Void] = [
                { $0.storedBytes = 19 }, { $0.periodBytes = 12 }, { $0.openUploads = 1 }, { $0.periodUploads = 1 },
            ]
            for change in limits {
                try await demandRefusal(of: next, by: store, as: "quota_exceeded") { () async throws(UploadError) in
                    try await insertComplete(next, consuming: grant("g"), under: effectiveLimits(change), into: store)
                }
            }
            let enough = effectiveLimits { policy in
                policy.storedBytes = 20
                policy.periodBytes = 20
                policy.openUploads = 2
                policy.periodUploads = 2
            }
            try await insertComplete(next, consuming: grant("g"), under: enough, into: store)
            try demand(await usage(store), is: usage(stored: 10, reserved: 10, open: 1, bytes: 20, uploads: 2))
        },
        Contract("a whole object replaces the expected one, which ends, and no other") { store in
            let (old, new, other) = (object("k"), object("k", 1, length: 30), object("k", 2))
            try await demandRefusal(of: old, by: store, as: "not_found") { () async throws(UploadError) in
                try await insertComplete(old, into: store)
            }
            try await makeBuckets(in: store)
            try await insertComplete(old, into: store)
            try demand(await store.object(name)?.id, is: old.id)
            for wrong in [nil, other.id] {
                try await demandRefusal(of: new, by: store, as: "busy") { () async throws(UploadError) in
                    try await insertComplete(new, replacing: wrong, into: store)
                }
            }
            let last = try await store.lastEvent()
            try await insertComplete(new, replacing: old.id, also: [.sample(.terminated, of: old)], into: store)
            try demand(await store.object(name)?.id, is: new.id)
            try demand(await store.upload(old.id)?.state, is: .terminated)
            try demand(await store.media(old.id), is: nil)
            try demand(await usage(store), is: usage(stored: 30, bytes: 40, uploads: 2))
            let kinds = try await store.events(EventQuery(after: last)).map(\.kind)
            try demand(kinds, is: [.created, .completed, .terminated])
            try await demandRefusal(of: other, by: store, as: "busy") { () async throws(UploadError) in
                try await insertComplete(other, replacing: old.id, into: store)
            }
        },
    ]
}
