internal import Foundation
internal import UploadModel

/// Pulls.
extension StateStoreContract {
    static func pull(_ upload: Upload, at seconds: TimeInterval? = 0) -> PullJob {
        PullJob(
            uploadID: upload.id,
            subject: upload.subject,
            url: "https://example.com/\(upload.id)",
            sealed: "sealed",
            contentTypes: ["video/*", "ü"],
            nextAttemptAt: seconds.map(start.addingTimeInterval)
        )
    }

    /// Claims the only due job.
    private static func claim(
        _ id: UploadID,
        for duration: TimeInterval = 3600,
        in store: any StateStore
    ) async throws -> PullJob {
        let claimed = try await store.claimPulls(limit: 9, for: duration)
        try demand(claimed.map(\.uploadID), is: [id])
        return claimed[0]
    }

    static let pulls: [Contract<any StateStore>] = [
        Contract("a pull is recorded with its upload, changed by the holder of its claim, and closed once") { store in
            let upload = upload(length: nil)
            let new = pull(upload)
            try demand(await store.pull(upload.id), is: nil)
            try demand(await store.update(new, .working), is: false)
            try await store.insert(upload, consuming: nil, pulling: new)
            try demand(await store.upload(upload.id), is: upload)
            try demand(await store.pull(upload.id), is: new)
            try demand(await store.update(new, .working), is: false)
            var job = try await claim(upload.id, in: store)
            try demand(job.isClaimed, is: true)
            job.validator = "\"tag\""
            job.total = 12
            job.attempts = 3
            job.failures = 2
            job.furthest = 7
            job.lastError = PullJob.Reason(code: "disconnected", message: "the connection ended")
            try demand(await store.update(job, .working), is: true)
            var recorded = try await store.pull(upload.id)
            try demand(recorded?.isClaimed, is: true)
            try demand(recorded?.claim, is: job.claim)
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
            recorded?.nextAttemptAt = job.nextAttemptAt
            try demand(recorded, is: job)
            try demand(await store.update(job, .due(after: 9)), is: true)
            try demand(await store.pull(upload.id)?.isClaimed, is: false)
            try demand(await store.nextPull().map { $0 > 0 && $0 <= 9 }, is: true)
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
        },
        Contract("a pull belongs to one process until it is released or the claim expires; later records are refused") {
            store in
            let upload = upload(length: nil)
            try await store.insert(upload, consuming: nil, pulling: pull(upload))
            var lost = try await claim(upload.id, for: 0, in: store)
            var job = try await claim(upload.id, in: store)
            try demand(await store.nextPull().map { $0 > 0 && $0 <= 3600 }, is: true)
            lost.validator = "other"
            for next in [.working, .due(after: 0), .never] as [PullJob.Next] {
                try demand(await store.update(lost, next), is: false)
            }
            try demand(await store.renewPulls([lost], for: 3600), is: [])
            try demand(await store.pull(upload.id)?.validator, is: nil)
            try demand(await store.renewPulls([job, lost], for: 0), is: [upload.id])
            // An expired claim is still held if no other process took the job.
            try demand(await store.renewPulls([job], for: 3600), is: [upload.id])
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
            try demand(await store.update(job, .due(after: 0)), is: true)
            job = try await claim(upload.id, in: store)
            job.sealed = ""
            job.isFailed = true
            try demand(await store.update(job, .never), is: true)
            let closed = try await store.pull(upload.id)
            try demand(closed?.nextAttemptAt, is: nil)
            try demand(closed?.isFailed, is: true)
            try demand(closed?.isClaimed, is: false)
            try demand(await store.update(job, .due(after: 0)), is: false)
            try demand(await store.renewPulls([job], for: 3600), is: [])
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
            try demand(await store.nextPull(), is: nil)
        },
        Contract("a pull under a used grant leaves nothing") { store in
            try await store.insert(upload(), consuming: grant("g"))
            let second = upload(1)
            try demand(
                await errorCode { () async throws(UploadError) in
                    try await store.insert(second, consuming: grant("g"), pulling: pull(second))
                },
                is: .grantUsed
            )
            try demand(await store.upload(second.id), is: nil)
            try demand(await store.pull(second.id), is: nil)
        },
        Contract("due pulls are claimed in the order of their next attempt, each once") { store in
            let uploads = (0..<4).map { upload(Double($0), length: nil) }
            let times: [TimeInterval?] = [30, nil, 10, 20]
            for (upload, seconds) in zip(uploads, times) {
                try await store.insert(upload, consuming: nil, pulling: pull(upload, at: seconds))
            }
            let first = try await store.claimPulls(limit: 2, for: 3600)
            try demand(Set(first.map(\.uploadID)), is: [uploads[2].id, uploads[3].id])
            try demand(await store.claimPulls(limit: 2, for: 3600).map(\.uploadID), is: [uploads[0].id])
            try demand(await store.claimPulls(limit: 2, for: 3600), is: [])
        },
        Contract("pulls of some users can be left for later, those of others and of none are claimed in order") {
            store in
            let subjects = ["anna", "anna", "bob", nil, "a\u{0301}", "\u{e1}", "anna"]
            let uploads = subjects.enumerated().map { index, subject in
                var upload = upload(Double(index), length: nil)
                upload.subject = subject
                return upload
            }
            for upload in uploads {
                try await store.insert(upload, consuming: nil, pulling: pull(upload, at: 8))
            }
            let later = ["anna", "\u{e1}"]
            let first = try await store.claimPulls(limit: 2, except: later, for: 3600)
            try demand(first.map(\.uploadID), is: [uploads[2].id, uploads[3].id])
            try demand(first.map(\.subject), is: ["bob", nil])
            let second = try await store.claimPulls(limit: 9, except: later, for: 3600)
            try demand(second.map(\.uploadID), is: [uploads[4].id])
            try demand(await store.claimPulls(limit: 9, except: later, for: 3600), is: [])
            try demand(await store.nextPull(except: later).map { $0 > 60 }, is: true)
            try demand(await store.nextPull().map { $0 <= 0 }, is: true)
            let others = ["anna", "bob", "a\u{0301}"]
            try demand(await store.claimPulls(limit: 9, except: others, for: 3600).map(\.uploadID), is: [uploads[5].id])
            try demand(await store.claimPulls(limit: 9, for: 3600).count, is: 3)
        },
        Contract("the end of an upload that was pulled is explained once, and only if it failed") { store in
            let reason = PullJob.Reason(code: "content_type_refused", message: "The content is text/html.")
            let (refused, complete) = (upload(), upload())
            for one in [refused, complete] { try await store.insert(one, consuming: nil, pulling: pull(one)) }
            try demand(await store.explain(refused.id, reason), is: false)
            try demand(await store.pull(refused.id)?.lastError, is: nil)
            try demand(await store.end(refused.id, as: .terminated, at: start), is: true)
            try demand(await store.explain(refused.id, reason), is: true)
            try demand(await store.explain(refused.id, PullJob.Reason(code: "other", message: "later")), is: false)
            let explained = try await store.pull(refused.id)
            try demand(explained?.isFailed, is: true)
            try demand(explained?.lastError, is: reason)
            try demand(explained?.nextAttemptAt, is: nil)
            _ = try await store.complete(completed(complete), as: media(of: complete))
            try demand(await store.explain(complete.id, reason), is: false)
            try demand(await store.pull(complete.id)?.lastError, is: nil)
        },
        Contract("a pull is closed and removed with its upload") { store in
            let upload = upload()
            var job = pull(upload)
            try await store.insert(upload, consuming: nil, pulling: job)
            try demand(await store.end(upload.id, as: .terminated, at: start), is: true)
            job.nextAttemptAt = nil
            job.sealed = ""
            try demand(await store.pull(upload.id), is: job)
            try await store.forgetEnded(before: start.addingTimeInterval(1), dead: .distantPast)
            try demand(await store.pull(upload.id), is: nil)
            try demand(await store.claimPulls(limit: 10, for: 3600), is: [])
        },
    ]
}
