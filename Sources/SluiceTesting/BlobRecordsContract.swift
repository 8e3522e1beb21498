package import Foundation
package import UploadModel

/// The contract of `BlobRecords`.
package enum BlobRecordsContract {
    package static let all: [Contract<any BlobRecords>] = records + parts + lists

    private static let start = Date(timeIntervalSince1970: 1_750_000_000.123)

    package static func record(_ seconds: TimeInterval = 0, state: BlobRecord.State = .open) -> BlobRecord {
        let created = start.addingTimeInterval(seconds)
        return BlobRecord(
            id: UploadID.generate(at: created),
            state: state,
            bucket: "uploads",
            key: "alice/2026/fü\"'\\.mp4",
            contentType: "video/mp4",
            partSize: 8 << 20,
            createdAt: created
        )
    }

    package static func parts(_ numbers: some Sequence<Int>, tag: String = "a") -> [BlobPart] {
        numbers.map { BlobPart(number: $0, size: 5 << 20, entityTag: "\"\(tag)-\($0)\"") }
    }

    /// A record whose fields all differ from those of a new one, with extreme values.
    private static func filled(_ record: BlobRecord, _ state: BlobRecord.State) -> BlobRecord {
        var filled = record
        filled.state = state
        filled.bucket = "other"
        filled.key = "{\"é😀\",NULL}; --"
        filled.contentType = nil
        filled.partSize = 5 << 30
        filled.multipart = "2~x/+=\"'\\,{}"
        filled.isBeginning = true
        filled.partCount = 10_000
        filled.partBytes = .max
        filled.tails = [
            TailObject(key: "sides/1", length: 1, md5: Array(0..<16)),
            TailObject(key: "sides/ü\"\\", length: .max, md5: [UInt8](repeating: 255, count: 16)),
        ]
        filled.crc32c = UInt32.max
        filled.entityTag = "\"d41d8cd9-2\""
        filled.createdAt = start.addingTimeInterval(99)
        return filled
    }

    private static let records: [Contract<any BlobRecords>] = [
        Contract("a blob is read back as it was inserted, with version 1") { records in
            var new = record()
            try await records.insert(new)
            try demand(await records.blob(new.id), is: new)
            try demand(await records.parts(of: new.id), is: [])
            for state in BlobRecord.State.allCases {
                new = filled(record(1), state)
                new.version = 77
                try await records.insert(new)
                new.version = 1
                try demand(await records.blob(new.id), is: new)
            }
            try demand(await records.blob(UploadID.generate(at: start)), is: nil)
            try demand(await records.parts(of: UploadID.generate(at: start)), is: [])
        },
        Contract("several blobs are read at once, each once") { records in
            let some = (0..<3).map { record(TimeInterval($0)) }
            for record in some { try await records.insert(record) }
            let expected = some.dropLast().map { record in
                var record = record
                record.version = 1
                return record
            }
            let unknown = UploadID.generate(at: start)
            let ids = [some[1].id, unknown, some[0].id, some[1].id]
            let found = try await records.blobs(ids).sorted { $0.createdAt < $1.createdAt }
            try demand(found, is: expected)
            try demand(await records.blobs([]), is: [])
        },
        Contract("an id is given to one blob only") { records in
            let first = record()
            try await records.insert(first)
            _ = try await records.update(first, adding: parts([1]), droppingFrom: nil)
            let second = filled(first, .complete)
            try demand(
                await errorCode { () async throws(UploadError) in try await records.insert(second) },
                is: .storageFailure
            )
            var kept = first
            kept.version = 2
            try demand(await records.blob(first.id), is: kept)
            try demand(await records.parts(of: first.id), is: parts([1]))
        },
        Contract("each field is changed, and its version with it") { records in
            let plain = record()
            let other = record(1)
            try await records.insert(plain)
            try await records.insert(other)
            var changed = plain
            for (number, state) in (BlobRecord.State.allCases + [.open]).enumerated() {
                changed = filled(changed, state)
                let version = try await records.update(changed, adding: [], droppingFrom: nil)
                try demand(version, is: Int64(number + 2))
                changed.version = version
                try demand(await records.blob(plain.id), is: changed)
            }
            var back = plain
            back.version = try await records.update(
                {
                    var record = plain; record.version = changed.version; return record
                }(),
                adding: [],
                droppingFrom: nil
            )
            try demand(await records.blob(plain.id), is: back)
            try demand(await records.blob(other.id), is: other)
        },
        Contract("a change based on an outdated read is refused") { records in
            let read = record()
            try await records.insert(read)
            var current = read
            current.crc32c = 7
            current.version = try await records.update(current, adding: parts(1...3), droppingFrom: nil)
            var late = read
            late.state = .completing
            for version in [1, 3, 0, -1, Int64.max] {
                late.version = version
                try demand(
                    await errorCode { () async throws(UploadError) in
                        try await records.update(late, adding: parts(2...5, tag: "late"), droppingFrom: 1)
                    },
                    is: .interrupted
                )
            }
            try demand(await records.blob(read.id), is: current)
            try demand(await records.parts(of: read.id), is: parts(1...3))
            try demand(await records.completingBlobs(limit: 5), is: [])
        },
        Contract("of concurrent changes based on the same read one succeeds") { records in
            let read = record()
            try await records.insert(read)
            let codes = await withTaskGroup(of: (Int, UploadError.Code?).self) { group in
                for number in 1...12 {
                    group.addTask {
                        let code = await errorCode { () async throws(UploadError) in
                            try await records.update(read, adding: parts([number]), droppingFrom: nil)
                        }
                        return (number, code)
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let winners = codes.filter { $0.1 == nil }.map(\.0)
            try demand(winners.count, is: 1)
            try demand(codes.count { $0.1 == .interrupted }, is: 11)
            try demand(await records.blob(read.id)?.version, is: 2)
            try demand(await records.parts(of: read.id), is: parts(winners))
        },
        Contract("a removed blob is gone with its parts, and can no longer be changed") { records in
            let gone = record()
            var kept = record(1)
            for record in [gone, kept] {
                try await records.insert(record)
                _ = try await records.update(record, adding: parts(1...3), droppingFrom: nil)
            }
            try await records.forgetBlob(gone.id)
            try await records.forgetBlob(gone.id)
            try await records.forgetBlob(UploadID.generate(at: start))
            try demand(await records.blob(gone.id), is: nil)
            try demand(await records.parts(of: gone.id), is: [])
            var late = gone
            late.version = 2
            for record in [gone, late] {
                try demand(
                    await errorCode { () async throws(UploadError) in
                        try await records.update(record, adding: parts([4]), droppingFrom: nil)
                    },
                    is: .interrupted
                )
            }
            try demand(await records.parts(of: gone.id), is: [])
            kept.version = 2
            try demand(await records.blob(kept.id), is: kept)
            try demand(await records.parts(of: kept.id), is: parts(1...3))
            // A new record with the same id inherits nothing.
            try await records.insert(gone)
            try demand(await records.blob(gone.id), is: gone)
            try demand(await records.parts(of: gone.id), is: [])
        },
    ]

    private static let parts: [Contract<any BlobRecords>] = [
        Contract("parts are added, replaced and dropped, and read by their numbers") { records in
            var record = record()
            let other = Self.record(1)
            try await records.insert(record)
            try await records.insert(other)
            _ = try await records.update(other, adding: parts(1...5, tag: "other"), droppingFrom: nil)
            func update(_ added: [BlobPart], from first: Int?) async throws {
                record.version = try await records.update(record, adding: added, droppingFrom: first)
            }
            try await update(parts([3, 1]), from: nil)
            try demand(await records.parts(of: record.id), is: parts([1, 3]))
            try await update(parts([2, 10, 9]), from: nil)
            try demand(await records.parts(of: record.id), is: parts([1, 2, 3, 9, 10]))
            let changed = BlobPart(number: 9, size: 0, entityTag: "")
            try await update([changed], from: nil)
            try demand(await records.parts(of: record.id), is: parts(1...3) + [changed] + parts([10]))
            // Removals happen before additions.
            try await update(parts([3, 4], tag: "b"), from: 3)
            try demand(await records.parts(of: record.id), is: parts(1...2) + parts(3...4, tag: "b"))
            // Lower parts stay unless they are replaced.
            try await update(parts([1], tag: "c"), from: 4)
            try demand(await records.parts(of: record.id), is: parts([1], tag: "c") + parts([2]) + parts([3], tag: "b"))
            try await update([], from: 100)
            try demand(await records.parts(of: record.id).count, is: 3)
            // Among parts with the same number, the last one wins.
            let twice = [
                BlobPart(number: 1, size: 1, entityTag: "x"), BlobPart(number: 1, size: .max, entityTag: "{\"y\\,"),
            ]
            try await update(twice, from: 0)
            try demand(await records.parts(of: record.id), is: [twice[1]])
            try await update([], from: 1)
            try demand(await records.parts(of: record.id), is: [])
            try demand(await records.parts(of: other.id), is: parts(1...5, tag: "other"))
            try demand(await records.blob(other.id)?.version, is: 2)
        },
        Contract("a blob has ten thousand parts") { records in
            var record = record()
            try await records.insert(record)
            record.version = try await records.update(record, adding: parts(1...9_999), droppingFrom: nil)
            record.version = try await records.update(record, adding: parts([10_000]), droppingFrom: nil)
            record.version = try await records.update(record, adding: parts([5_000], tag: "b"), droppingFrom: nil)
            let expected = parts(1...4_999) + parts([5_000], tag: "b") + parts(5_001...10_000)
            try demand(await records.parts(of: record.id) == expected, is: true)
            _ = try await records.update(record, adding: [], droppingFrom: 2)
            try demand(await records.parts(of: record.id), is: parts([1]))
            try await records.forgetBlob(record.id)
            try demand(await records.parts(of: record.id), is: [])
        },
    ]

    private static let lists: [Contract<any BlobRecords>] = [
        Contract("blobs are listed by their ids, page by page") { records in
            try demand(await records.blobs(after: nil, limit: 5), is: [])
            let all = (0..<7).map { record(TimeInterval($0), state: BlobRecord.State.allCases[$0 % 3]) }
            for record in all.shuffled() { try await records.insert(record) }
            let ids = all.map(\.id).sorted { $0.text < $1.text }
            var listed: [UploadID] = []
            while true {
                let page = try await records.blobs(after: listed.last, limit: 3)
                if page.isEmpty { break }
                try demand(page.count, is: min(3, 7 - listed.count))
                listed += page
            }
            try demand(listed, is: ids)
            // A page can start after a removed id.
            try await records.forgetBlob(ids[2])
            try demand(await records.blobs(after: ids[2], limit: 2), is: [ids[3], ids[4]])
            try demand(await records.blobs(after: nil, limit: 3), is: [ids[0], ids[1], ids[3]])
        },
        Contract("blobs whose completion has begun are listed until it is recorded") { records in
            var first = record()
            let second = record(1, state: .completing)
            for record in [first, second, record(2), record(3, state: .complete)] { try await records.insert(record) }
            try demand(await records.completingBlobs(limit: 5), is: [second.id])
            first.state = .completing
            first.version = try await records.update(first, adding: [], droppingFrom: nil)
            try demand(Set(await records.completingBlobs(limit: 5)), is: [first.id, second.id])
            try demand(await records.completingBlobs(limit: 1).count, is: 1)
            first.state = .complete
            _ = try await records.update(first, adding: [], droppingFrom: nil)
            try demand(await records.completingBlobs(limit: 5), is: [second.id])
            try await records.forgetBlob(second.id)
            try demand(await records.completingBlobs(limit: 5), is: [])
        },
    ]
}
