internal import Foundation
internal import UploadModel

/// Expired, needed and removed records.
extension StateStoreContract {
    static let retention: [Contract<any StateStore>] = [
        Contract("only open uploads past their expiry are listed as expired, the oldest first") { store in
            let late = upload(0, expiresIn: 60)
            let early = upload(1, expiresIn: 30)
            let ended = upload(2, expiresIn: 10)
            for upload in [late, early, ended, upload(3, expiresIn: nil), upload(4, expiresIn: 1000)] {
                try await store.insert(upload, consuming: nil)
            }
            _ = try await store.complete(completed(ended), as: media(of: ended))
            let moment = start.addingTimeInterval(60)
            try demand(await store.expiredUploads(at: moment, limit: 10), is: [early.id, late.id])
            try demand(await store.expiredUploads(at: moment, limit: 1), is: [early.id])
            try demand(await store.expiredUploads(at: moment.addingTimeInterval(-0.001), limit: 10), is: [early.id])
        },
        Contract("the bytes of open and completed uploads are needed, however many there are") { store in
            var ids: [UploadID] = []
            for index in 0..<1203 {
                let upload = upload(TimeInterval(index))
                ids.append(upload.id)
                if index % 400 == 0 { try await store.insert(upload, consuming: nil) }
            }
            _ = try await store.end(ids[400], as: .terminated, at: start)
            let whole = upload(-1)
            try await store.insert(whole, consuming: nil)
            _ = try await store.complete(completed(whole), as: media(of: whole))
            let needed = try await store.needed(ids + [whole.id])
            try demand(needed, is: [ids[0], ids[800], ids[1200], whole.id])
            try demand(await store.needed([]), is: [])
        },
        Contract("records of ended uploads are removed after their retention time, others are not") { store in
            let old = upload(0)
            let recent = upload(1)
            let whole = upload(2)
            let open = upload(3)
            for upload in [old, recent, whole, open] { try await store.insert(upload, consuming: nil) }
            _ = try await store.end(old.id, as: .expired, at: start.addingTimeInterval(10))
            _ = try await store.end(recent.id, as: .terminated, at: start.addingTimeInterval(20))
            _ = try await store.complete(completed(whole), as: media(of: whole))
            try await store.forgetEnded(before: start.addingTimeInterval(20), dead: .distantPast)
            let left = try await store.uploads(UploadQuery())
            try demand(left.map(\.id), is: [open.id, whole.id, recent.id])
        },
    ]
}
