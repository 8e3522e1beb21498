internal import Foundation
internal import UploadCore
internal import UploadModel

/// Objects, buckets, and uploads that become objects.
extension StateStoreContract {
    static let objects: [Contract<any StateStore>] = objectNames + objectLists + replacements + buckets

    /// An open upload that becomes an object.
    static func object(
        _ key: String,
        in bucket: String = "videos",
        _ seconds: TimeInterval = 0,
        length: Int64? = 10
    ) -> Upload {
        var upload = counted(seconds, length: length)
        upload.dialect = "objects"
        upload.bucket = bucket
        upload.key = key
        upload.attributes = ObjectAttributes(headers: ["cache-control": "no-store"])
        return upload
    }

    /// Attributes with a value in each field that is hard to store.
    static func attributes() -> ObjectAttributes {
        var attributes = ObjectAttributes(
            headers: ["content-disposition": "inline; filename=\"ü\\\0\"", "x-amz-meta-e": ""],
            tags: ["漢": "😀\u{FFFF}", "b": "{\"'}"],
            checksum: ObjectChecksum(.crc64nvme, isComposite: true, value: [0, 255, 1])
        )
        attributes.entityTag = "d41d8cd98f00b204e9800998ecf8427e-2"
        attributes.crc64 = .max
        attributes.partSizes = [5 << 30, 0, .max]
        return attributes
    }

    static func makeBuckets(_ names: [String] = ["videos"], in store: any StateStore) async throws {
        for name in names { try demand(await store.insert(BucketRecord(name: name, createdAt: start)), is: true) }
    }

    /// The completed upload, with no reservation left.
    static func finished(_ upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Upload {
        var finished = completed(upload, at: time)
        finished.reservedBytes = 0
        return finished
    }

    /// Inserts and completes an upload.
    static func put(
        _ upload: Upload,
        replacing replaced: UploadID? = nil,
        into store: any StateStore
    ) async throws {
        try await insert(upload, into: store)
        let done = finished(upload)
        try demand(await store.complete(done, as: Media(of: done), replacing: replaced), is: true)
    }

    static func bytes(_ text: String?) -> [UInt8]? { text.map { Array($0.utf8) } }

    // MARK: Names

    private static let objectNames: [Contract<any StateStore>] = [
        Contract("an upload that becomes an object is read back as inserted, and the object as completed") {
            store in
            try await makeBuckets(in: store)
            var upload = object("a/b.mp4")
            upload.attributes = attributes()
            upload.takesParts = true
            try await insert(upload, into: store)
            try demand(await store.upload(upload.id), is: upload)
            let name = ObjectName(bucket: "videos", key: "a/b.mp4")
            try demand(await store.object(name), is: nil)
            var done = finished(upload)
            done.attributes?.entityTag = "abc"
            done.attributes?.crc64 = 1 << 63
            let media = Media(of: done)
            try demand(await store.complete(done, as: media), is: true)
            try demand(await store.upload(upload.id), is: done)
            try demand(await store.object(name), is: media)
            try demand(await store.media(upload.id), is: media)
            try demand(media.attributes, is: done.attributes)
            try demand(await store.objects(ObjectQuery(bucket: "videos", limit: 5)), is: [ObjectSummary(media)])
            for other in [("other", "a/b.mp4"), ("videos", "a/b.mp"), ("videos", "A/b.mp4"), ("videos", "")] {
                try demand(await store.object(ObjectName(bucket: other.0, key: other.1)), is: nil)
            }
            _ = try await store.end(upload.id, as: .terminated, at: start)
            try demand(await store.object(name), is: nil)
            try demand(await store.objects(ObjectQuery(bucket: "videos", limit: 5)), is: [])
        },
        Contract("events show which uploads become objects") { store in
            var upload = object("a")
            upload.reservedBytes = 0
            upload.attributes = attributes()
            upload.takesParts = true
            try await store.record(.sample(.created, of: upload))
            try demand(await store.events(EventQuery(after: 0)).map(\.upload), is: [upload])
        },
        Contract("one key in two buckets names two objects, and media without a bucket are not objects") { store in
            try await makeBuckets(["videos", "images"], in: store)
            let uploads = [object("k"), object("k", in: "images", 1)]
            for upload in uploads { try await put(upload, into: store) }
            for seconds in [2, 3] as [TimeInterval] {
                var plain = object("k", seconds)
                plain.bucket = nil
                try await put(plain, into: store)
            }
            for upload in uploads {
                let name = ObjectName(bucket: upload.bucket ?? "", key: "k")
                try demand(await store.object(name)?.id, is: upload.id)
                let listed = try await store.objects(ObjectQuery(bucket: name.bucket, limit: 5))
                try demand(listed.map(\.id), is: [upload.id])
            }
        },
        Contract("keys that look the same but have different bytes name two objects") { store in
            try await makeBuckets(in: store)
            let keys = ["e\u{301}", "\u{E9}", "\u{1E9B}\u{323}", "\u{17F}\u{323}\u{307}", "\u{212B}", "\u{C5}"]
            let uploads = keys.enumerated().map { object($1, TimeInterval($0)) }
            for upload in uploads { try await put(upload, into: store) }
            for (key, upload) in zip(keys, uploads) {
                let found = try await store.object(ObjectName(bucket: "videos", key: key))
                try demand(found?.id, is: upload.id)
                try demand(bytes(found?.key), is: bytes(key))
                try demand(bytes(await store.upload(upload.id)?.key), is: bytes(key))
                let listed = try await store.objects(ObjectQuery(bucket: "videos", prefix: key, limit: 1))
                try demand(listed.map(\.id), is: [upload.id])
            }
        },
    ]

    // MARK: Lists

    /// Ordered by bytes, which differs from the order of Swift and of any language.
    static let sortedKeys = [
        "\u{1}", "%", "Z", "_", "a", "a-", "a/", "a/b", "aB", "aa", "a\u{301}", "z", "\u{E1}", "ä", "漢", "\u{D7FF}",
        "\u{D7FF}\u{10FFFF}", "\u{E000}", "\u{FFFE}", "\u{FFFF}", "\u{FFFF}0", "\u{FFFF}\u{FFFF}", "😀", "\u{10FFFF}",
        "\u{10FFFF}\u{10FFFF}", "\u{10FFFF}\u{10FFFF}a",
    ]

    /// Prefixes of no key, of one key and of several; between, before and after the keys.
    private static let prefixes = [
        "", "%", "a", "a/", "a\u{301}", "b", "\u{E1}", "\u{D7FF}", "\u{FFFE}", "\u{FFFF}", "\u{10FFFF}",
        "\u{10FFFF}\u{10FFFF}",
    ]

    private static let markers = [
        "", "Z", "a", "a.", "a/", "a/a", "a/b/c", "aa", "y", "\u{E1}", "\u{D7FF}", "\u{D7FF}\u{10FFFF}", "\u{FFFF}",
        "\u{FFFF}\u{10FFFF}", "😁", "\u{10FFFF}\u{10FFFF}a",
    ]

    private static func isBefore(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }

    private static func has(_ key: String, _ prefix: String) -> Bool { key.utf8.starts(with: prefix.utf8) }

    private static let objectLists: [Contract<any StateStore>] = [
        Contract("objects are listed in the order of the bytes of their keys, page by page") { store in
            try await makeBuckets(["videos", "video", "videos2"], in: store)
            for (index, key) in sortedKeys.enumerated().shuffled() {
                try await put(object(key, TimeInterval(index)), into: store)
            }
            for bucket in ["video", "videos2"] { try await put(object("aa", in: bucket, 99), into: store) }
            try await insert(object("open", 100), into: store)
            for limit in [1, 2, 7, sortedKeys.count, sortedKeys.count + 1] {
                var listed: [String] = []
                while true {
                    let query = ObjectQuery(bucket: "videos", after: listed.last, limit: limit)
                    let page = try await store.objects(query).compactMap(\.key)
                    try demand(page.count, is: min(limit, sortedKeys.count - listed.count))
                    listed += page
                    if page.count < limit { break }
                }
                try demand(listed.map { bytes($0) }, is: sortedKeys.map { bytes($0) })
            }
            try demand(await store.objects(ObjectQuery(bucket: "nothing", limit: 5)), is: [])
        },
        Contract("a listing tells what the record of each object says") { store in
            try await makeBuckets(in: store)
            var expected: [ObjectSummary] = []
            for number in 0..<5 {
                var upload = object("k\(number)", TimeInterval(number))
                switch number {
                case 0: upload.attributes = nil
                case 1: upload.attributes?.isAppendable = true
                case 2: upload.attributes?.checksum = ObjectChecksum(.sha256)
                case 3: upload.attributes?.checksum = ObjectChecksum(.crc32, value: [])
                default: upload.attributes = attributes()
                }
                try await put(upload, into: store)
                expected.append(ObjectSummary(Media(of: finished(upload))))
            }
            try demand(await store.objects(ObjectQuery(bucket: "videos", limit: 9)), is: expected)
        },
        Contract("objects are listed by any prefix, after any key") { store in
            try await makeBuckets(in: store)
            for (index, key) in sortedKeys.enumerated() { try await put(object(key, TimeInterval(index)), into: store) }
            for prefix in prefixes {
                for after in [nil] + markers.map({ $0 as String? }) {
                    let query = ObjectQuery(bucket: "videos", prefix: prefix, after: after, limit: 3)
                    let expected = sortedKeys.filter { key in
                        has(key, prefix) && after.map { isBefore($0, key) } ?? true
                    }
                    let found = try await store.objects(query).map { bytes($0.key) }
                    if found != expected.prefix(3).map({ bytes($0) }) {
                        throw ContractViolation(description: "\(query) gives \(found)")
                    }
                }
            }
        },
        Contract("open uploads that take parts are listed by key and id, from any of them on") { store in
            try await makeBuckets(["videos", "images"], in: store)
            var all: [Upload] = []
            for (index, key) in sortedKeys.enumerated() {
                for second in 0..<(1 + index % 3) {
                    var upload = object(key, TimeInterval(second * 100 + index), length: nil)
                    upload.takesParts = true
                    all.append(upload)
                }
            }
            for upload in all.shuffled() { try await insert(upload, into: store) }
            // These are not in the result.
            var others = (0..<4).map { object("a", TimeInterval(1000 + $0)) }
            for index in 1..<4 { others[index].takesParts = true }
            others[1].bucket = "images"
            for upload in others { try await insert(upload, into: store) }
            let done = finished(others[2])
            _ = try await store.complete(done, as: Media(of: done))
            _ = try await store.end(others[3].id, as: .expired, at: start)

            let whole = try await store.partUploads(PartUploadQuery(bucket: "videos", limit: 1000))
            try demand(whole, is: all)
            try demand(whole.map { bytes($0.key) }, is: all.map { bytes($0.key) })
            for limit in [1, 4, all.count] {
                var listed: [Upload] = []
                while true {
                    let page = try await store.partUploads(
                        PartUploadQuery(
                            bucket: "videos",
                            after: listed.last?.key,
                            afterID: listed.last?.id,
                            limit: limit
                        )
                    )
                    listed += page
                    if page.count < limit { break }
                }
                try demand(listed.map(\.id), is: all.map(\.id))
            }
            let ids = [nil, all[7].id, UploadID.generate(at: start.addingTimeInterval(5000))]
            for prefix in ["", "a", "a/", "\u{D7FF}", "\u{FFFF}", "\u{10FFFF}"] {
                for after in [nil, "a", all[7].key, "\u{FFFF}", "\u{10FFFF}\u{10FFFF}"] {
                    for id in ids {
                        let expected = all.filter { upload in
                            let key = upload.key ?? ""
                            guard has(key, prefix) else { return false }
                            guard let after else { return true }
                            if bytes(after) == bytes(key), let id { return upload.id.text > id.text }
                            return isBefore(after, key)
                        }
                        let query = PartUploadQuery(
                            bucket: "videos",
                            prefix: prefix,
                            after: after,
                            afterID: id,
                            limit: 5
                        )
                        let found = try await store.partUploads(query).map(\.id)
                        if found != expected.prefix(5).map(\.id) {
                            throw ContractViolation(description: "\(query) gives \(found)")
                        }
                    }
                }
            }
        },
    ]
}
