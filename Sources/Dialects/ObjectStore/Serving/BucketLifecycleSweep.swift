internal import Bytes
internal import Foundation
package import UploadCore
package import UploadModel

/// Applies the lifecycle rules of all buckets.
package struct BucketLifecycleSweep: Sendable {
    package struct Report: Sendable, Equatable {
        /// Objects that were removed.
        package var objects = 0
        /// Multipart uploads that were aborted.
        package var uploads = 0
        /// Steps that failed, and are tried again in the next run.
        package var failures = 0
    }

    private let objects: ObjectService
    private let parts: PartService
    private let uploads: UploadService
    private let clock: any WallClock
    /// Reports a failure in a bucket.
    private let failed: @Sendable (_ bucket: String, UploadError) -> Void

    private static let pageSize = 500

    package init(
        objects: ObjectService,
        parts: PartService,
        uploads: UploadService,
        clock: any WallClock,
        failed: @escaping @Sendable (_ bucket: String, UploadError) -> Void
    ) {
        self.objects = objects
        self.parts = parts
        self.uploads = uploads
        self.clock = clock
        self.failed = failed
    }

    /// Removes what the enabled rules say; disturbs no request.
    package func run() async -> Report {
        var report = Report()
        let buckets = await attempt("", &report) { () async throws(UploadError) in try await objects.buckets() }
        for bucket in buckets ?? [] {
            guard let text = bucket.documents[BucketConfiguration.lifecycle.rawValue],
                // A document of an earlier version can have what is refused today.
                let lifecycle = try? BucketLifecycle(document: Array(text.utf8))
            else { continue }
            for rule in lifecycle.rules where rule.isEnabled && !Task.isCancelled {
                if let age = rule.expiration { await expire(rule.filter, age, in: bucket.name, &report) }
                if let age = rule.abort { await abort(rule.filter, age, in: bucket.name, &report) }
            }
        }
        return report
    }

    private func expire(
        _ filter: BucketLifecycle.Filter,
        _ age: BucketLifecycle.Age,
        in bucket: String,
        _ report: inout Report
    ) async {
        var query = ObjectQuery(bucket: bucket, prefix: filter.prefix, limit: Self.pageSize)
        while !Task.isCancelled {
            let found = await attempt(bucket, &report) { () async throws(UploadError) in
                try await objects.objects(query)
            }
            let (page, now) = (found ?? [], clock.now)
            for object in page where age.isOver(object.createdAt, at: now) && filter.includes(size: object.size) {
                let isRemoved = await attempt(bucket, &report) { () async throws(UploadError) in
                    let name = ObjectName(bucket: bucket, key: object.key)
                    guard try await hasTags(filter, name, object.id) else { return false }
                    // The object that was looked at, not one that has replaced it.
                    try await uploads.terminate(object.id)
                    return true
                }
                if isRemoved == true { report.objects += 1 }
            }
            guard page.count == Self.pageSize, let last = page.last else { return }
            query.after = last.key
        }
    }

    private func hasTags(
        _ filter: BucketLifecycle.Filter,
        _ name: ObjectName,
        _ id: UploadID
    ) async throws(UploadError) -> Bool {
        if filter.tags.isEmpty { return true }
        guard let object = try await objects.object(name), object.id == id else { return false }
        let tags = ExactNames(object.attributes?.tags ?? [:])
        return filter.tags.allSatisfy { tags[$0.key]?.isExactly($0.value) ?? false }
    }

    /// Rules with tags or sizes concern objects: an upload has neither yet.
    private func abort(
        _ filter: BucketLifecycle.Filter,
        _ age: BucketLifecycle.Age,
        in bucket: String,
        _ report: inout Report
    ) async {
        guard filter.tags.isEmpty, filter.largerThan == nil, filter.smallerThan == nil else { return }
        let multipart = MultipartUploads(uploads: uploads, parts: parts)
        var query = PartUploadQuery(bucket: bucket, prefix: filter.prefix, limit: Self.pageSize)
        while !Task.isCancelled {
            let found = await attempt(bucket, &report) { () async throws(UploadError) in
                try await parts.partUploads(query)
            }
            let (page, now) = (found ?? [], clock.now)
            for upload in page where age.isOver(upload.createdAt, at: now) {
                let isAborted: Void? = await attempt(bucket, &report) { () async throws(UploadError) in
                    try await multipart.abort(upload)
                }
                if isAborted != nil { report.uploads += 1 }
            }
            guard page.count == Self.pageSize, let last = page.last else { return }
            (query.after, query.afterID) = (last.key, last.id)
        }
    }

    /// The result of a step; `nil` if it failed, of which only what was removed or completed meanwhile is not reported.
    private func attempt<Result: Sendable>(
        _ bucket: String,
        _ report: inout Report,
        _ step: () async throws(UploadError) -> Result
    ) async -> Result? {
        do throws(UploadError) {
            return try await step()
        } catch {
            switch error.code {
            case .notFound, .gone: break
            default:
                report.failures += 1
                failed(bucket, error)
            }
            return nil
        }
    }
}

extension BucketLifecycle.Filter {
    fileprivate func includes(size: Int64) -> Bool {
        (largerThan.map { size > $0 } ?? true) && (smallerThan.map { size < $0 } ?? true)
    }
}
