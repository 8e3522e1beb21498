internal import Foundation
internal import UploadCore
internal import UploadModel

/// Parts of uploads.
extension StateStoreContract {
    /// An open upload that takes parts.
    static func inParts(_ key: String = "k", _ seconds: TimeInterval = 0, length: Int64? = nil) -> Upload {
        var upload = object(key, seconds, length: length)
        upload.takesParts = true
        return upload
    }

    static func part(_ number: Int, _ variant: UInt8 = 0, size: Int64? = nil) -> PartRecord {
        PartRecord(
            number: number,
            size: size ?? Int64(number) * 10,
            md5: [variant] + [UInt8](repeating: UInt8(number & 255), count: 15),
            crc64: UInt64(number),
            location: "parts/\(number)-\(variant)",
            storedAt: start.addingTimeInterval(TimeInterval(variant))
        )
    }

    /// The refusal of a part; `nil` if the part was added.
    private static func refusal(
        of part: PartRecord,
        of id: UploadID,
        by store: any StateStore
    ) async -> UploadError.Code? {
        await errorCode { () async throws(UploadError) in try await store.putPart(part, of: id) }
    }

    static let objectParts: [Contract<any StateStore>] = [
        Contract("parts are read back as they were recorded, one at a time and by their numbers") { store in
            try await makeBuckets(in: store)
            let (upload, other) = (inParts(), inParts("k", 1))
            for upload in [upload, other] { try await insert(upload, into: store) }
            try demand(await store.objectParts(of: upload.id, after: 0, limit: 5), is: [])
            try demand(await store.objectPart(1, of: upload.id), is: nil)
            try demand(await store.partBytes(of: upload.id), is: 0)
            var parts = [1, 2, 3, 10, 9_999, 10_000].map { part($0) }
            parts[0].crc64 = .max
            parts[1].crc64 = 1 << 63
            parts[2].crc64 = 0
            parts[3].checksum = Array(0...255)
            parts[4].location = "ü\"'\\{}\u{FFFF}\n"
            parts[4].md5 = [UInt8](repeating: 0, count: 16)
            parts[5].size = 5 << 40
            for part in parts.shuffled() { try demand(await store.putPart(part, of: upload.id), is: nil) }
            try demand(await store.putPart(part(2, 7), of: other.id), is: nil)
            for part in parts { try demand(await store.objectPart(part.number, of: upload.id), is: part) }
            try demand(await store.objectPart(4, of: upload.id), is: nil)
            let sum = parts.reduce(0) { $0 + $1.size }
            try demand(await store.partBytes(of: upload.id), is: sum)
            let (unknown, both) = (UploadID.generate(at: start), [upload.id: sum, other.id: part(2, 7).size])
            try demand(await store.partBytes(of: [other.id, unknown, upload.id, upload.id]), is: both)
            try demand(await store.partBytes(of: [unknown]), is: [:])
            try demand(await store.partBytes(of: [UploadID]()), is: [:])
            for limit in 1...7 {
                var listed: [PartRecord] = []
                while true {
                    let page = try await store.objectParts(of: upload.id, after: listed.last?.number ?? 0, limit: limit)
                    listed += page
                    if page.count < limit { break }
                }
                try demand(listed, is: parts)
            }
            try demand(await store.objectParts(of: upload.id, after: 4, limit: 2), is: Array(parts[3...4]))
            try demand(await store.objectParts(of: upload.id, after: 10_000, limit: 2), is: [])
            try demand(await store.objectParts(of: other.id, after: 0, limit: 9), is: [part(2, 7)])
            try demand(await store.objectParts(of: unknown, after: 0, limit: 9), is: [])
            try demand(await store.objectPart(1, of: unknown), is: nil)
            try demand(await store.partBytes(of: unknown), is: 0)
            try demand(await store.upload(upload.id), is: upload)
        },
        Contract("a part replaces one with the same number, which is returned") { store in
            try await makeBuckets(in: store)
            let upload = inParts()
            try await insert(upload, into: store)
            var first = part(2, 0, size: 7)
            first.checksum = [1]
            let (second, third) = (part(2, 1, size: 9), part(2, 2, size: 0))
            try demand(await store.putPart(part(1), of: upload.id), is: nil)
            try demand(await store.putPart(first, of: upload.id), is: nil)
            try demand(await store.putPart(second, of: upload.id), is: first)
            try demand(await store.putPart(third, of: upload.id), is: second)
            try demand(await store.putPart(third, of: upload.id), is: third)
            try demand(await store.objectParts(of: upload.id, after: 0, limit: 9), is: [part(1), third])
            try demand(await store.partBytes(of: upload.id), is: 10)
        },
        Contract("of concurrent parts with one number each but the last is returned once") {
            store in
            try await makeBuckets(in: store)
            let upload = inParts()
            try await insert(upload, into: store)
            let parts = (0..<12).map { part(3, UInt8($0)) }
            let given = try await withThrowingTaskGroup(of: PartRecord?.self) { group in
                for part in parts { group.addTask { try await store.putPart(part, of: upload.id) } }
                return try await group.reduce(into: [PartRecord]()) { if let part = $1 { $0.append(part) } }
            }
            try demand(given.count, is: parts.count - 1)
            let last = try await store.objectPart(3, of: upload.id)
            let all = given + [last].compactMap { $0 }
            try demand(Set(all.map(\.location)), is: Set(parts.map(\.location)))
        },
        Contract("an upload accepts parts while it is open and its completion has not begun") { store in
            try await makeBuckets(in: store)
            let open = inParts()
            let (done, ended, plain, whole) = (
                inParts("done", 1), inParts("ended", 2), object("plain", 3), object("whole", 4)
            )
            for upload in [open, done, ended, plain] { try await insert(upload, into: store) }
            try await put(whole, into: store)
            for upload in [open, done, ended] { _ = try await store.putPart(part(1), of: upload.id) }
            let complete = finished(done)
            try demand(await store.complete(complete, as: Media(of: complete)), is: true)
            try demand(await store.end(ended.id, as: .terminated, at: start), is: true)
            for id in [done.id, ended.id, plain.id, whole.id, UploadID.generate(at: start)] {
                for number in [1, 2] { try demand(await refusal(of: part(number, 1), of: id, by: store), is: .gone) }
                try demand(await store.objectParts(of: id, after: 0, limit: 9), is: [])
            }
            var attributes = attributes()
            attributes.completing = [1]
            try demand(await store.setAttributes(of: open.id, to: attributes), is: true)
            for number in [1, 2] { try demand(await refusal(of: part(number, 1), of: open.id, by: store), is: .gone) }
            try demand(await store.objectParts(of: open.id, after: 0, limit: 9), is: [part(1)])
            // When the completion is rolled back, the upload accepts parts again.
            attributes.completing = nil
            try demand(await store.setAttributes(of: open.id, to: attributes), is: true)
            try demand(await store.putPart(part(2), of: open.id), is: nil)
            try demand(await store.objectParts(of: open.id, after: 0, limit: 9), is: [part(1), part(2)])
        },
        Contract("attributes of an open upload and of an object can be replaced, those of an ended upload cannot") {
            store in
            try await makeBuckets(in: store)
            var open = inParts()
            let (whole, ended) = (object("whole", 1), object("ended", 2))
            for upload in [open, ended] { try await insert(upload, into: store) }
            try await put(whole, into: store)
            _ = try await store.end(ended.id, as: .expired, at: start)
            for id in [ended.id, UploadID.generate(at: start)] {
                try demand(await store.setAttributes(of: id, to: attributes()), is: false)
            }
            var labelled = whole.attributes ?? attributes()
            labelled.tags = ["a": "1"]
            try demand(await store.setAttributes(of: whole.id, to: labelled), is: true)
            try demand(await store.upload(whole.id)?.attributes, is: labelled)
            try demand(await store.media(whole.id)?.attributes, is: labelled)
            if let name = whole.objectName { try demand(await store.object(name)?.attributes, is: labelled) }
            try demand(await store.upload(ended.id)?.attributes, is: ended.attributes)
            open.attributes = attributes()
            open.attributes?.completing = PartNumbers(1...10_000)
            try demand(await store.setAttributes(of: open.id, to: open.attributes ?? attributes()), is: true)
            try demand(await store.upload(open.id), is: open)
            open.attributes = ObjectAttributes()
            try demand(await store.setAttributes(of: open.id, to: ObjectAttributes()), is: true)
            try demand(await store.upload(open.id), is: open)
        },
        Contract("at the end of an upload its parts are removed and its bytes returned, and no others") {
            store in
            try await makeBuckets(in: store)
            let (done, ended, kept) = (
                inParts("done", length: 30), inParts("ended", 1, length: 40), inParts("kept", 2, length: 50)
            )
            for upload in [done, ended, kept] {
                try await insert(upload, into: store)
                for number in 1...3 { _ = try await store.putPart(part(number), of: upload.id) }
            }
            let complete = finished(done)
            try demand(await store.complete(complete, as: Media(of: complete)), is: true)
            let event = EventRecord.sample(.expired, of: ended)
            let isEnded = try await store.end(
                ended.id,
                from: .open,
                as: .expired,
                at: start,
                received: 15,
                recording: event
            )
            try demand(isEnded, is: true)
            for id in [done.id, ended.id] {
                try demand(await store.objectParts(of: id, after: 0, limit: 9), is: [])
                try demand(await store.objectPart(2, of: id), is: nil)
                try demand(await store.partBytes(of: id), is: 0)
            }
            try demand(await store.partBytes(of: kept.id), is: 60)
            try demand(
                await usage(store),
                is: usage(stored: 30, reserved: 50, open: 1, bytes: 30 + 15 + 50, uploads: 3)
            )
            try await store.forgetEnded(before: start.addingTimeInterval(1), dead: .distantPast)
            try demand(await store.upload(ended.id), is: nil)
            try demand(await store.objectParts(of: kept.id, after: 0, limit: 9).count, is: 3)
        },
        Contract("a part added while the upload ends is either recorded before or refused") { store in
            try await makeBuckets(in: store)
            for round in 0..<6 {
                let upload = inParts("k", TimeInterval(round))
                try await insert(upload, into: store)
                async let isEnded = store.end(upload.id, as: .terminated, at: start)
                let codes = await withTaskGroup(of: UploadError.Code?.self) { group in
                    for number in 1...6 {
                        group.addTask { await refusal(of: part(number), of: upload.id, by: store) }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                try demand(await isEnded, is: true)
                try demand(codes.allSatisfy { $0 == nil || $0 == .gone }, is: true)
                try demand(await store.objectParts(of: upload.id, after: 0, limit: 9), is: [])
            }
        },
    ]
}
