internal import Bytes
internal import Foundation
internal import UploadModel

/// Makes one attempt to fetch the missing bytes.
extension PullService {
    /// Why an attempt ends.
    enum End: Error {
        case completed
        /// The upload has ended, so there is nothing left to fetch.
        case over
        case failure(PullFailure)
        /// The stored bytes cannot be continued; the fetch must start again.
        case outdated(PullJob.Reason)
    }

    func attempt(_ before: PullJob) async {
        let start = ContinuousClock.now
        defer { observe(.ended(after: .now - start)) }
        var job = before
        var end: End
        do throws(End) {
            if job.isFailed { throw .over }
            try await fetch(&job)
            end = .completed
        } catch {
            end = error
        }
        // A request cut short by the end of the upload or of the process does not count as a failure.
        if Task.isCancelled, case .failure = end { end = .failure(PullFailure("stopped", "stopped", .none)) }
        do throws(UploadError) {
            try await conclude(job, end)
        } catch {
            // The row was not updated and will be read again; wait, because the state may fail for a while.
            uploads.context.report(error, of: job.uploadID)
            try? await Task.sleep(for: .seconds(limits.retryDelay))
        }
    }

    /// Fetches all missing bytes, with as many requests as the origin requires.
    private func fetch(_ job: inout PullJob) async throws(End) {
        let id = job.uploadID
        guard let request = sealer.open(job.sealed) else {
            throw .failure(
                PullFailure("request_unreadable", "the master secret has changed since; pull it again", .final)
            )
        }
        while true {
            let upload = try await core { () throws(UploadError) in
                try await uploads.status(of: id, .explicit(isLast: false))
            }
            if upload.state == .completed { return }
            note(progress: upload.offset, &job)
            // Stored bytes always belong to a single content, whose size is recorded.
            if upload.offset == job.total { return try await complete(upload) }
            if try await step(&job, upload, request) { return }
        }
    }

    /// Makes one request and stores its content.
    ///
    /// - Returns: Whether the upload is complete.
    private func step(_ job: inout PullJob, _ upload: Upload, _ wanted: PullRequest) async throws(End) -> Bool {
        let request = try await allowed(wanted, for: upload)
        let rest: OriginRest? =
            if upload.offset > 0, let validator = job.validator {
                OriginRest(offset: upload.offset, validator: validator)
            } else {
                nil
            }
        job.attempts += 1
        try await record(job)
        let response: OriginResponse
        do throws(PullFailure) {
            response = try await origin.open(request, rest: rest)
        } catch {
            let isRevoked = request != wanted && error.reason.code == PullFailure.refusedAddress
            throw .failure(isRevoked ? Self.revoked : error)
        }
        switch response {
        case .nothing(let total):
            guard total == nil || total == upload.offset, job.total == nil || job.total == upload.offset else {
                throw .outdated(Self.changed)
            }
            try await complete(upload)
            return true
        case .part(let content, let offset, let end):
            guard offset == upload.offset, content.total == nil || job.total == nil || content.total == job.total else {
                throw .outdated(Self.changed)
            }
            guard let total = content.total ?? job.total else { throw .outdated(Self.unclear) }
            return try await store(content, &job, upload, request, isLast: end == total)
        case .whole(let content):
            let upload = try await beginAnew(content, &job, upload, request)
            return try await store(content, &job, upload, request, isLast: true)
        }
    }

    /// The request as it may be made now.
    ///
    /// A key or user that is revoked makes the gateway connect to nothing inside any more.
    private func allowed(_ request: PullRequest, for upload: Upload) async throws(End) -> PullRequest {
        let isRevoked = try await core { () throws(UploadError) in
            try await revoked.isRevoked(issuer: upload.issuer, subject: upload.subject, issuedAt: upload.createdAt)
        }
        guard isRevoked else { return request }
        if endsWithKey { throw .failure(Self.revoked) }
        var request = request
        request.reach = .publicOnly
        return request
    }

    /// Prepares the upload for the first byte of a content.
    private func beginAnew(
        _ content: OriginContent,
        _ job: inout PullJob,
        _ before: Upload,
        _ request: PullRequest
    ) async throws(End) -> Upload {
        var upload = before
        let limit = uploads.ledger.mostBytes(of: upload)
        if let total = content.total, total > limit { throw .failure(Self.tooLarge(limit)) }
        var values = upload.metadata.values
        let explicit = UploadMetadata(values: request.metadata)
        // A name that no upload may have is no name.
        let filename = content.filename.flatMap { MetadataText.isName($0) ? $0 : nil }
        let isDecided = request.keepsMetadata ?? false
        if explicit.filename == nil, !isDecided { values["filename"] = filename }
        if explicit.contentType == nil, !isDecided { values["filetype"] = content.contentType }
        let metadata = UploadMetadata(describing: values)
        try await core { () throws(UploadError) in
            try await uploads.describe(
                upload,
                as: metadata,
                contentTypes: job.contentTypes,
                otherwise: content.contentType
            )
        }
        // The order matters: stored bytes must never belong to other content than the validator.
        if upload.offset > 0 {
            try await core { () throws(UploadError) in try await uploads.restart(upload.id) }
            upload.offset = 0
        }
        job.validator = content.validator
        job.total = content.total
        try await record(job)
        return upload
    }

    private func store(
        _ content: OriginContent,
        _ job: inout PullJob,
        _ before: Upload,
        _ request: PullRequest,
        isLast: Bool
    ) async throws(End) -> Bool {
        let upload: Upload
        // Large content may take longer than an upload lives without an append, and the process may die at its end.
        var expiresAt = before.expiresAt
        let renew = { [uploads] (now: Upload) async -> Void in
            var current = now
            current.expiresAt = expiresAt
            current.updatedAt = uploads.now
            expiresAt = await uploads.lifecycle.renewedExpiry(of: current)
        }
        do throws(UploadError) {
            upload = try await uploads.append(
                to: before.id,
                at: before.offset,
                // The client does not guarantee the length, so it is not declared: other content may follow.
                contentLength: nil,
                finish: .explicit(isLast: isLast),
                expecting: nil,
                upTo: request.storedBytes,
                from: content.source,
                progress: renew
            )
        } catch {
            throw end(of: error, content.failure())
        }
        note(progress: upload.offset, &job)
        return upload.state == .completed
    }

    private func complete(_ upload: Upload) async throws(End) {
        _ = try await core { () throws(UploadError) in
            try await uploads.append(
                to: upload.id,
                at: upload.offset,
                contentLength: nil,
                finish: .explicit(isLast: true),
                expecting: nil,
                from: ArraySource([])
            )
        }
    }

    private func note(progress offset: Int64, _ job: inout PullJob) {
        guard offset > job.furthest else { return }
        observe(.progressed(bytes: offset - job.furthest))
        job.furthest = offset
        job.failures = 0
    }

    private func record(_ job: PullJob) async throws(End) {
        let known = try await core { () throws(UploadError) in try await pulls.update(job, .working) }
        if !known { throw .over }
    }

    private func core<Success>(_ body: () async throws(UploadError) -> Success) async throws(End) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            throw end(of: error, nil)
        }
    }

    private func end(of error: UploadError, _ failure: PullFailure?) -> End {
        switch error.code {
        case .gone, .notFound: .over
        // The upload is complete or being ended; the next check shows which.
        case .notOpen, .interrupted: .failure(PullFailure("interrupted", "interrupted", .none))
        case .disconnected, .timedOut, .invalidRequest:
            .failure(failure ?? PullFailure(error.code.name, error.message))
        case .tooLarge(let limit): .failure(Self.tooLarge(limit))
        case .contentTypeRefused, .digestMismatch, .quotaExceeded, .rejected, .conditionFailed:
            .failure(PullFailure(error.code.name, error.message, .final))
        case .storageFull, .storageFailure, .busy, .unavailable, .tooManyRequests:
            .failure(PullFailure(error.code.name, error.message, .wait))
        default: .failure(PullFailure(error.code.name, error.message))
        }
    }

    private static func tooLarge(_ limit: Int64) -> PullFailure {
        PullFailure("content_too_large", "the content has more than \(limit) bytes", .final)
    }

    private static let revoked = PullFailure(
        "revoked",
        "the API key or token that asked for it was revoked; pull it again",
        .final
    )
    private static let changed = PullJob.Reason(
        code: "content_changed",
        message: "the content has changed since part of it was fetched; the pull starts again"
    )
    private static let unclear = PullJob.Reason(
        code: "range_unclear",
        message: "the origin does not say which part it sends; the pull starts again"
    )
}
