internal import Digests
internal import Foundation
internal import UploadCore
internal import UploadModel

/// Uploads, from creation to end.
extension StateStoreContract {
    static let uploads: [Contract<any StateStore>] = [
        Contract("an upload is read back as it was inserted") { store in
            let full = upload()
            var bare = upload(1, subject: nil, length: nil, expiresIn: nil)
            bare.metadata = UploadMetadata()
            bare.completesWhenFull = false
            try await store.insert(full, consuming: nil)
            try await store.insert(bare, consuming: nil)
            try demand(await store.upload(full.id), is: full)
            try demand(await store.upload(bare.id), is: bare)
            try demand(await store.upload(UploadID.generate(at: start)), is: nil)
        },
        Contract("digests are read back as they were inserted, and those of media can be set later") { store in
            var upload = upload()
            upload.expectedDigests = [.sha256: [1, 2, 255], .sha512: []]
            try await store.insert(upload, consuming: nil)
            try demand(await store.upload(upload.id), is: upload)
            var media = media(of: upload)
            media.digests = [.sha256: [0, 1], .crc32c: [2]]
            try await store.setDigests(of: upload.id, to: [.md5: [3]])
            try demand(await store.complete(completed(upload), as: media), is: true)
            try demand(await store.media(upload.id), is: media)
            media.digests = [.sha512: [9]]
            try await store.setDigests(of: upload.id, to: media.digests)
            try demand(await store.media(upload.id), is: media)
            _ = try await store.end(upload.id, as: .terminated, at: start)
            try await store.setDigests(of: upload.id, to: [.md5: [3]])
            try demand(await store.media(upload.id), is: nil)
        },
        Contract("completing turns an open upload into media, once") { store in
            let upload = upload(length: nil)
            let media = media(of: upload)
            try await store.insert(upload, consuming: nil)
            try demand(await store.media(upload.id), is: nil)
            try demand(await store.complete(completed(upload), as: media), is: true)
            try demand(await store.upload(upload.id), is: completed(upload))
            try demand(await store.media(upload.id), is: media)
            try demand(await store.complete(completed(upload), as: media), is: false)
        },
        Contract("an upload that is unknown or ended is not completed") { store in
            let upload = upload()
            try demand(await store.complete(completed(upload), as: media(of: upload)), is: false)
            try await store.insert(upload, consuming: nil)
            try demand(await store.end(upload.id, as: .terminated, at: start), is: true)
            try demand(await store.complete(completed(upload), as: media(of: upload)), is: false)
            try demand(await store.media(upload.id), is: nil)
        },
        Contract("the length of an open upload without one is set once") { store in
            var open = upload(length: nil)
            open.maximumBytes = 100
            let known = upload(1)
            let ended = upload(2, length: nil)
            for upload in [open, known, ended] { try await store.insert(upload, consuming: nil) }
            _ = try await store.end(ended.id, as: .terminated, at: start)
            let moment = start.addingTimeInterval(9)
            try demand(await store.setLength(of: open.id, to: 12, updatedAt: moment), is: true)
            open.length = 12
            open.reservedBytes = 12
            open.updatedAt = moment
            try demand(await store.upload(open.id), is: open)
            for id in [open.id, known.id, ended.id, UploadID.generate(at: start)] {
                try demand(await store.setLength(of: id, to: 13, updatedAt: start), is: false)
            }
            try demand(await store.upload(open.id), is: open)
            try demand(await store.upload(known.id), is: known)
        },
        Contract("the expiry of an open upload can be changed, that of others cannot") { store in
            var open = upload()
            let ended = upload(1)
            try await store.insert(open, consuming: nil)
            try await store.insert(ended, consuming: nil)
            _ = try await store.end(ended.id, as: .expired, at: start)
            let later = start.addingTimeInterval(500)
            try await store.setExpiry(of: open.id, to: later, updatedAt: start.addingTimeInterval(9))
            try await store.setExpiry(of: ended.id, to: later, updatedAt: start)
            open.expiresAt = later
            open.updatedAt = start.addingTimeInterval(9)
            try demand(await store.upload(open.id), is: open)
            try demand(await store.upload(ended.id)?.expiresAt, is: nil)
            try await store.setExpiry(of: open.id, to: nil, updatedAt: start)
            try demand(await store.upload(open.id)?.expiresAt, is: nil)
        },
    ]

    static let ends: [Contract<any StateStore>] = [
        Contract("an upload ends once, and its media goes with it") { store in
            let upload = upload()
            try await store.insert(upload, consuming: nil)
            _ = try await store.complete(completed(upload), as: media(of: upload))
            let end = start.addingTimeInterval(20)
            try demand(await store.end(upload.id, as: .terminated, at: end), is: true)
            try demand(await store.media(upload.id), is: nil)
            let ended = try await store.upload(upload.id)
            try demand(ended?.state, is: .terminated)
            try demand(ended?.endedAt, is: end)
            try demand(await store.end(upload.id, as: .terminated, at: end), is: false)
            try demand(await store.end(upload.id, as: .expired, at: end), is: false)
            try demand(await store.end(UploadID.generate(at: start), as: .expired, at: end), is: false)
        },
        Contract("ending an upload that is no longer in the expected state changes nothing") { store in
            let (open, whole) = (upload(0), upload(1))
            for upload in [open, whole] { try await store.insert(upload, consuming: nil) }
            _ = try await store.complete(completed(whole), as: media(of: whole))
            let last = try await store.lastEvent()
            let event = EventRecord.sample(.terminated, of: whole)
            for (id, before) in [
                (whole.id, Upload.State.open), (open.id, .completed), (whole.id, .terminated), (open.id, .expired),
            ] {
                let ends = try await store.end(
                    id,
                    from: before,
                    as: .terminated,
                    at: start,
                    received: 0,
                    recording: event
                )
                try demand(ends, is: false)
            }
            try demand(await store.upload(open.id)?.state, is: .open)
            try demand(await store.upload(whole.id)?.state, is: .completed)
            try demand(await store.media(whole.id), is: media(of: whole))
            try demand(await store.lastEvent(), is: last)
        },
    ]

    static let grants: [Contract<any StateStore>] = [
        Contract("a one-time grant admits one upload, and a refused upload leaves no trace") { store in
            let first = upload()
            let second = upload(1)
            try await store.insert(first, consuming: grant("g1"))
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(second, consuming: grant("g1"))
                },
                is: .grantUsed
            )
            try demand(await store.upload(second.id), is: nil)
            try await store.insert(second, consuming: grant("g2"))
        },
        Contract("of concurrent uses of a one-time grant one succeeds") { store in
            let winners = await withTaskGroup(of: Bool.self) { group in
                for index in 0..<20 {
                    group.addTask {
                        await errorCode { () async throws(UploadError) in
                            try await store.insert(upload(TimeInterval(index)), consuming: grant("g"))
                        } == nil
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            try demand(winners, is: 1)
            try demand(await store.uploads(UploadQuery()).count, is: 1)
        },
        Contract("the use of a grant is recorded until long after the grant has expired") { store in
            try await store.insert(upload(), consuming: grant("g", expiresIn: 60))
            try await store.forgetEnded(before: start.addingTimeInterval(60), dead: .distantPast)
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(upload(1), consuming: grant("g"))
                },
                is: .grantUsed
            )
            try await store.forgetEnded(before: start.addingTimeInterval(61), dead: .distantPast)
            try await store.insert(upload(2), consuming: grant("g"))
        },
    ]
}
