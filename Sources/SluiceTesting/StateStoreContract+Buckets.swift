internal import Foundation
internal import UploadCore
internal import UploadModel

/// Buckets of objects.
extension StateStoreContract {
    static let buckets: [Contract<any StateStore>] = [
        Contract("a bucket is recorded once, read back, and listed by name") { store in
            let names = ["B", "a", "a-b", "a.b", "aa", "b"]
            try demand(await store.buckets(), is: [])
            let records = names.enumerated().map { index, name in
                BucketRecord(
                    name: name,
                    createdAt: start.addingTimeInterval(TimeInterval(-index)),
                    documents: index == 0 ? [:] : ["cors": "<ü>\"\0\u{FFFF}", "": "\(index)"]
                )
            }
            for record in records.shuffled() { try demand(await store.insert(record), is: true) }
            try demand(await store.insert(BucketRecord(name: "a", createdAt: start)), is: false)
            for record in records { try demand(await store.bucket(record.name), is: record) }
            try demand(await store.buckets(), is: records)
            try demand(await store.bucket("c"), is: nil)
        },
        Contract("documents of a bucket are set, replaced and removed") { store in
            try await makeBuckets(["a", "b"], in: store)
            try demand(await store.setDocument("cors", to: "one", ofBucket: "a"), is: true)
            try demand(await store.setDocument("tags", to: "<x/>", ofBucket: "a"), is: true)
            try demand(await store.setDocument("cors", to: "two", ofBucket: "a"), is: true)
            try demand(await store.bucket("a")?.documents, is: ["cors": "two", "tags": "<x/>"])
            try demand(await store.setDocument("cors", to: nil, ofBucket: "a"), is: true)
            try demand(await store.setDocument("none", to: nil, ofBucket: "a"), is: true)
            try demand(
                await store.bucket("a"),
                is: BucketRecord(name: "a", createdAt: start, documents: ["tags": "<x/>"])
            )
            try demand(await store.bucket("b")?.documents, is: [:])
            try demand(await store.setDocument("cors", to: "three", ofBucket: "c"), is: false)
            try demand(await store.bucket("c"), is: nil)
            // No concurrent change is lost.
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<8 {
                    group.addTask { try await store.setDocument("\(number)", to: "x", ofBucket: "b") }
                }
                for try await isSet in group { try demand(isSet, is: true) }
            }
            try demand(await store.bucket("b")?.documents.count, is: 8)
        },
        Contract("a bucket can be removed when it contains no object and no open upload") { store in
            try await makeBuckets(["videos", "images"], in: store)
            var parts = object("p", 1, length: nil)
            parts.takesParts = true
            let (whole, single) = (object("k"), object("s", 2))
            try await put(whole, into: store)
            try await insert(parts, into: store)
            try await insert(single, into: store)
            try demand(await store.removeBucket("images"), is: true)
            try demand(await store.removeBucket("images"), is: true)
            try demand(await store.removeBucket("videos"), is: false)
            _ = try await store.end(whole.id, as: .terminated, at: start)
            try demand(await store.removeBucket("videos"), is: false)
            _ = try await store.end(parts.id, as: .expired, at: start)
            try demand(await store.removeBucket("videos"), is: false)
            try demand(await complete(single, replacing: nil, in: store), is: true)
            try demand(await store.removeBucket("videos"), is: false)
            try demand(await store.bucket("videos")?.name, is: "videos")
            _ = try await store.end(single.id, as: .terminated, at: start)
            try demand(await store.removeBucket("videos"), is: true)
            try demand(await store.buckets(), is: [])
            try await makeBuckets(in: store)
            try await put(object("k", 3), into: store)
        },
        Contract("in an unknown bucket nothing is created, and nothing is counted") { store in
            let upload = object("k")
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(
                        upload,
                        consuming: grant("g"),
                        under: effectiveLimits(),
                        recording: .sample(.created, of: upload)
                    )
                },
                is: .notFound
            )
            try demand(await store.upload(upload.id), is: nil)
            try demand(await usage(store), is: usage())
            try demand(await store.lastEvent(), is: 0)
            try await makeBuckets(in: store)
            try await store.insert(upload, consuming: grant("g"))
        },
        Contract("of concurrent calls that create an upload in a bucket and remove the bucket one succeeds") { store in
            for round in 0..<10 {
                try await makeBuckets(in: store)
                let upload = object("k", TimeInterval(round))
                async let isRemoved = store.removeBucket("videos")
                let refusal = await errorCode { () async throws(UploadError) in try await insert(upload, into: store) }
                try demand(await isRemoved, is: refusal == .notFound)
                try demand(await store.bucket("videos") == nil, is: refusal == .notFound)
                try demand(await store.upload(upload.id) == nil, is: refusal == .notFound)
                if refusal == nil {
                    _ = try await store.end(upload.id, as: .terminated, at: start)
                    try demand(await store.removeBucket("videos"), is: true)
                }
            }
        },
    ]
}
