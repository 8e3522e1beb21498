internal import Foundation
internal import UploadCore
internal import UploadModel

/// Texts, which a state returns as they were given, whatever they are.
extension StateStoreContract {
    static let texts: [Contract<any StateStore>] = [
        Contract("every text of an upload, its media, its object and its events comes back byte by byte") { store in
            let seed = UInt64.random(in: 0...UInt64.max)
            var generator = SeededGenerator(seed: seed)
            try await makeBuckets(in: store)
            for round in 0..<60 {
                let full = writtenUpload(Double(round), &generator)
                try await store.insert(full, consuming: nil)
                let done = finished(full)
                let media = Media(of: done)
                let recorded = try await store.upload(full.id)
                try demandBytes(recorded.map(writing), is: writing(full), seed)
                try demand(await store.complete(done, as: media), is: true)
                let (last, kept) = (try await store.upload(full.id), try await store.media(full.id))
                try demandBytes(last.map(writing), is: writing(done), seed)
                try demandBytes(kept.map(writing), is: writing(media), seed)
                let name = ObjectName(bucket: "videos", key: full.key ?? "")
                try demandBytes(await store.object(name).map(writing), is: writing(media), seed)
                let events = try await store.events(EventQuery(after: 0, upload: full.id))
                try demandBytes(events.map { writing($0.upload) }, is: [writing(full), writing(done)], seed)
                var others = full.metadata
                others.values["filename"] = generator.text()
                others.raw = generator.text()
                let isSet = try await store.setMetadata(
                    of: full.id,
                    from: full.metadata,
                    to: others,
                    updatedAt: start,
                    recording: .sample(.updated, of: done)
                )
                try demand(isSet, is: true)
                let changed = try await store.media(full.id)
                try demandBytes(
                    changed?.filename.map { Array($0.utf8) },
                    is: others.filename.map { Array($0.utf8) },
                    seed
                )
            }
        },
        Contract("a text finds the record that has it, and no other one") { store in
            // What ends at NUL, or is an escape, elsewhere.
            let texts = [
                "a", "a\0", "a\0b", "a\u{FFFF}", "a\u{FFFF}0", "a\u{FFFF}0b", "a\u{FFFF}1", "a\u{FFFF}\u{FFFF}",
            ]
            for (index, text) in texts.enumerated() {
                var one = upload(Double(index), subject: text)
                one.alias = text
                one.issuer = text
                try await store.insert(one, consuming: grant(text))
            }
            for (index, text) in texts.enumerated() {
                let id = try await store.upload(alias: text)
                try demand(id?.createdAt, is: upload(Double(index)).id.createdAt)
                for query in [UploadQuery(subject: text), UploadQuery(issuer: text)] {
                    try demand(await store.uploads(query).map(\.id), is: [id].compactMap { $0 })
                }
                let code = await errorCode { () async throws(UploadError) in
                    try await store.insert(upload(100), consuming: grant(text))
                }
                try demand(code, is: .grantUsed)
            }
        },
    ]

    /// An upload whose texts are all made up.
    private static func writtenUpload(_ seconds: TimeInterval, _ generator: inout SeededGenerator) -> Upload {
        var upload = object("k\(Int(seconds))/" + generator.text().filter { $0 != "\0" }, seconds)
        upload.alias = "\(Int(seconds))/" + generator.text()
        upload.issuer = generator.text()
        upload.subject = generator.text()
        upload.reservedBytes = 0
        for name in ["filename", "filetype", generator.text(), generator.text()] {
            upload.metadata.values[name] = generator.text()
        }
        upload.metadata.raw = generator.text()
        upload.attributes?.headers = [generator.text(): generator.text()]
        upload.attributes?.tags = [generator.text(): generator.text()]
        upload.attributes?.entityTag = generator.text()
        return upload
    }

    private static func demandBytes<Value: Equatable>(_ actual: Value, is expected: Value, _ seed: UInt64) throws {
        if actual != expected {
            throw ContractViolation(description: "seed \(seed): expected \(expected), got \(actual)")
        }
    }

    /// The bytes of all texts, because texts that look the same are equal in Swift.
    private static func writing(_ upload: Upload) -> [[UInt8]] {
        [upload.alias, upload.key, upload.issuer, upload.subject, upload.metadata.raw].map { Array(($0 ?? "-").utf8) }
            + writing(upload.metadata.values) + writing(upload.attributes)
    }

    private static func writing(_ media: Media) -> [[UInt8]] {
        [media.key, media.subject, media.filename, media.contentType].map { Array(($0 ?? "-").utf8) }
            + writing(media.metadata) + writing(media.attributes)
    }

    private static func writing(_ attributes: ObjectAttributes?) -> [[UInt8]] {
        [Array((attributes?.entityTag ?? "-").utf8)] + writing(attributes?.headers ?? [:])
            + writing(attributes?.tags ?? [:])
    }

    private static func writing(_ texts: [String: String]) -> [[UInt8]] {
        texts.map { Array($0.key.utf8) + [0xFF] + Array($0.value.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
    }
}

extension SeededGenerator {
    /// Up to eight scalars, most of which something treats in a way of its own.
    fileprivate mutating func text() -> String {
        let scalars: [Unicode.Scalar] = [
            "\0", "\0", "\u{1}", "\t", "\n", "\r", "\u{1B}", "\"", "'", "\\", "0", "1", "a", "\u{7F}", "\u{85}",
            "\u{E9}",
            "e", "\u{301}", "\u{2028}", "\u{D7FF}", "\u{E000}", "\u{FEFF}", "\u{FFFD}", "\u{FFFE}", "\u{FFFF}",
            "\u{FFFF}", "\u{10000}", "\u{1F600}", "\u{10FFFF}",
        ]
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...8, using: &self) {
            text.append(scalars.randomElement(using: &self) ?? "\0")
        }
        return String(text)
    }
}
