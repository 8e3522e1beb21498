internal import Foundation
internal import UploadCore
internal import UploadModel

/// Partial and final uploads.
extension StateStoreContract {
    static func partial(_ seconds: TimeInterval) -> Upload {
        var upload = upload(seconds)
        upload.concatenation = Concatenation(.partial, raw: "partial")
        return upload
    }

    static func final(_ seconds: TimeInterval, of parts: [Upload]) -> Upload {
        var upload = upload(seconds, length: nil)
        let urls = parts.map { "/files/\($0.id)" }.joined(separator: " ")
        upload.concatenation = Concatenation(.final(parts: parts.map(\.id)), raw: "final;\(urls)")
        return upload
    }

    static let concatenations: [Contract<any StateStore>] = [
        Contract("partial and final uploads are read back as they were inserted, by one id or several") { store in
            let parts = [partial(0), partial(1)]
            let whole = final(2, of: [parts[1], parts[0], parts[1]])
            for upload in parts + [whole] { try await store.insert(upload, consuming: nil) }
            for upload in parts + [whole] { try demand(await store.upload(upload.id), is: upload) }
            let unknown = UploadID.generate(at: start)
            let found = try await store.uploads([whole.id, unknown, parts[0].id, whole.id])
            try demand(found, is: [whole.id: whole, parts[0].id: parts[0]])
            try demand(await store.uploads([]), is: [:])
        },
        Contract("a partial upload completes without media and keeps an expiry") { store in
            let part = partial(0)
            try await store.insert(part, consuming: nil)
            var whole = completed(part)
            whole.expiresAt = start.addingTimeInterval(90)
            try demand(await store.complete(whole, as: nil), is: true)
            try demand(await store.upload(part.id), is: whole)
            try demand(await store.media(part.id), is: nil)
            try demand(await store.expiredUploads(at: start.addingTimeInterval(89), limit: 5), is: [])
            try demand(await store.expiredUploads(at: start.addingTimeInterval(90), limit: 5), is: [part.id])
            try demand(await store.end(part.id, as: .expired, at: start), is: true)
            try demand(await store.expiredUploads(at: start.addingTimeInterval(90), limit: 5), is: [])
        },
        Contract("the open final uploads of a part are found, each once, until they end") { store in
            let parts = [partial(0), partial(1)]
            let finals = [final(2, of: [parts[0], parts[0]]), final(3, of: parts), final(4, of: [parts[1]])]
            for upload in parts + finals { try await store.insert(upload, consuming: nil) }
            try demand(await store.openFinals(of: parts[0].id), is: [finals[0].id, finals[1].id])
            try demand(await store.openFinals(of: parts[1].id), is: [finals[1].id, finals[2].id])
            try demand(await store.openFinals(of: finals[0].id), is: [])
            _ = try await store.complete(completed(finals[0]), as: media(of: finals[0]))
            _ = try await store.end(finals[1].id, as: .terminated, at: start)
            try demand(await store.openFinals(of: parts[0].id), is: [])
            try demand(await store.openFinals(of: parts[1].id), is: [finals[2].id])
        },
    ]
}
