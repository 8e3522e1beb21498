internal import Foundation
package import UploadModel

/// The contract of `StateStore`.
package enum StateStoreContract {
    /// All requirements; those of each port are in its own file.
    package static let all: [Contract<any StateStore>] =
        [
            uploads, texts, wholes, ends, grants, rights, concatenations, lists, retention, accounts, events, pulls,
            objectParts,
            objects,
        ].flatMap { $0 }
        + deliveries.map { $0.on { $0 } } + keys.map { $0.on { $0 } } + revocations.map { $0.on { $0 } }
        + dialectRecords.map { $0.on { $0 } }
        + jobs.map { $0.on { $0 } } + health.map { $0.on { $0 } }

    static let start = Date(timeIntervalSince1970: 1_750_000_000.123)

    static func upload(
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

    static func media(of upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Media {
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

    static func completed(_ upload: Upload, at time: Date = start.addingTimeInterval(5)) -> Upload {
        var completed = upload
        completed.state = .completed
        completed.length = upload.length ?? 7
        completed.offset = completed.length ?? 0
        completed.expiresAt = nil
        completed.updatedAt = time
        completed.endedAt = time
        return completed
    }

    static func grant(_ id: String, expiresIn: TimeInterval = 60) -> Grant {
        Grant(id: id, subject: nil, expiresAt: start.addingTimeInterval(expiresIn), isOneTime: true)
    }
}
