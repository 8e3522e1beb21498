internal import Foundation
internal import UploadModel

/// Pages of uploads.
extension StateStoreContract {
    static let lists: [Contract<any StateStore>] = [
        Contract("lists are newest first, filtered, and continue where the previous page ended") { store in
            var all: [Upload] = []
            for index in 0..<9 {
                let upload = upload(TimeInterval(index), subject: index % 2 == 0 ? "alice" : "bob")
                all.insert(upload, at: 0)
                try await store.insert(upload, consuming: nil)
                if index % 3 == 0 { _ = try await store.complete(completed(upload), as: media(of: upload)) }
            }
            try demand(await store.uploads(UploadQuery(limit: 100)).map(\.id), is: all.map(\.id))
            let first = try await store.uploads(UploadQuery(limit: 4))
            try demand(first.map(\.id), is: Array(all.prefix(4).map(\.id)))
            let second = try await store.uploads(UploadQuery(before: first.last?.id, limit: 4))
            try demand(second.map(\.id), is: Array(all[4..<8].map(\.id)))
            let whole = try await store.uploads(UploadQuery(states: [.completed]))
            try demand(whole.map(\.id), is: [all[2], all[5], all[8]].map(\.id))
            let mine = try await store.uploads(UploadQuery(states: [.open], subject: "alice"))
            try demand(mine.map(\.id), is: [all[0], all[4], all[6]].map(\.id))
            try demand(await store.uploads(UploadQuery(subject: "nobody")), is: [])
        },
        Contract("a search ends after a number of records, and the next one goes on there") { store in
            var all: [Upload] = []
            for index in 0..<30 {
                var upload = upload(TimeInterval(index), subject: index % 5 == 0 ? "bob" : "alice")
                upload.issuer = index % 2 == 0 ? "key_a" : "key_b"
                upload.dialect = index % 3 == 0 ? "http" : "tus"
                try await store.insert(upload, consuming: nil)
                switch index % 7 {
                case 0:
                    _ = try await store.complete(completed(upload), as: media(of: upload))
                    upload.state = .completed
                case 1:
                    _ = try await store.end(upload.id, as: .terminated, at: start)
                    upload.state = .terminated
                default: break
                }
                all.insert(upload, at: 0)
            }
            let alices = all.filter { $0.subject == "alice" }
            let query = UploadQuery(states: [.completed], subject: "alice")
            try demand(await store.end(of: query, reading: 4), is: alices[3].id)
            try demand(await store.end(of: query, reading: alices.count), is: alices.last?.id)
            try demand(await store.end(of: query, reading: alices.count + 1), is: nil)
            try demand(await store.end(of: UploadQuery(subject: "alice"), reading: 4), is: nil)
            let queries = [
                query, UploadQuery(states: [.terminated, .open], issuer: "key_b"),
                UploadQuery(states: [.completed], issuer: "key_a"), UploadQuery(issuer: "key_a", dialect: "tus"),
                UploadQuery(states: [.completed], dialect: "http"),
                UploadQuery(
                    states: Set(Upload.State.allCases),
                    subject: "bob",
                    issuer: "key_a",
                    createdAfter: start.addingTimeInterval(3),
                    createdBefore: start.addingTimeInterval(27)
                ),
            ]
            for query in queries {
                let sought = try await store.uploads(query).map(\.id)
                for count in [1, 2, 4, 7, 30] {
                    var page = query
                    var found: [UploadID] = []
                    repeat {
                        page.oldest = try await store.end(of: page, reading: count)
                        found += try await store.uploads(page).map(\.id)
                        page.before = page.oldest
                    } while page.oldest != nil
                    try demand(found, is: sought)
                }
            }
        },
        Contract("lists are filtered by states, key, protocol and time, in any combination") { store in
            var all: [Upload] = []
            for index in 0..<12 {
                var upload = upload(TimeInterval(index), subject: index % 2 == 0 ? "alice" : nil)
                upload.issuer = index % 3 == 0 ? "key_a" : "key_b"
                upload.dialect = index % 4 == 0 ? "http" : "tus"
                try await store.insert(upload, consuming: nil)
                switch index {
                case 1, 4, 7, 10:
                    _ = try await store.complete(completed(upload), as: media(of: upload))
                    upload.state = .completed
                case 2, 5:
                    _ = try await store.end(upload.id, as: .terminated, at: start)
                    upload.state = .terminated
                case 3:
                    _ = try await store.end(upload.id, as: .expired, at: start)
                    upload.state = .expired
                default: break
                }
                all.insert(upload, at: 0)
            }
            let stateSets: [Set<Upload.State>] = [
                [], [.open], [.completed], [.open, .completed], [.terminated, .expired], Set(Upload.State.allCases),
            ]
            let after = start.addingTimeInterval(3)
            let before = start.addingTimeInterval(9)
            for states in stateSets {
                for subject in [nil, "alice"] {
                    for issuer in [nil, "key_a", "nobody"] {
                        for dialect in [nil, "tus"] {
                            for (createdAfter, createdBefore) in [(nil, nil), (after, nil), (after, before)] {
                                for cursor in [nil, all[4].id] {
                                    let query = UploadQuery(
                                        states: states,
                                        subject: subject,
                                        issuer: issuer,
                                        dialect: dialect,
                                        createdAfter: createdAfter,
                                        createdBefore: createdBefore,
                                        before: cursor,
                                        limit: 5
                                    )
                                    let expected = all.filter { upload in
                                        (states.isEmpty || states.contains(upload.state))
                                            && (subject == nil || upload.subject == subject)
                                            && (issuer == nil || upload.issuer == issuer)
                                            && (dialect == nil || upload.dialect == dialect)
                                            && upload.createdAt >= createdAfter ?? .distantPast
                                            && upload.createdAt < createdBefore ?? .distantFuture
                                            && cursor.map { upload.id.text < $0.text } ?? true
                                    }
                                    let found = try await store.uploads(query)
                                    try demand(found.map(\.id), is: expected.prefix(5).map(\.id))
                                }
                            }
                        }
                    }
                }
            }
        },
    ]
}
