package import Foundation
package import UploadCore

/// A state store that fails where a test wants it to, and else does what `base` does.
package final class FaultyState: StateStore {
    package enum Operation: Hashable, Sendable {
        case insertUpload, upload, uploads, uploadsByID, openFinals, complete, end, setLength, setExpiry,
            expiredUploads, forgetEnded, needed, media
        case insertKey, key, keys, revokeKey, check
    }

    package let plan: FaultPlan<Operation>
    private let base: any StateStore

    package init(_ base: any StateStore, fuse: Fuse? = nil) {
        self.base = base
        plan = FaultPlan(fuse: fuse)
    }

    package func insert(_ upload: Upload, consuming grant: Grant?) async throws(UploadError) {
        try plan.step(.insertUpload)
        try await base.insert(upload, consuming: grant)
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        try plan.step(.upload)
        return try await base.upload(id)
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        try plan.step(.uploads)
        return try await base.uploads(query)
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        try plan.step(.uploadsByID)
        return try await base.uploads(ids)
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        try plan.step(.openFinals)
        return try await base.openFinals(of: part)
    }

    package func complete(_ upload: Upload, as media: Media?) async throws(UploadError) -> Bool {
        try plan.step(.complete)
        return try await base.complete(upload, as: media)
    }

    package func end(_ id: UploadID, as state: Upload.State, at now: Date) async throws(UploadError) -> Bool {
        try plan.step(.end)
        return try await base.end(id, as: state, at: now)
    }

    package func setLength(of id: UploadID, to length: Int64, updatedAt: Date) async throws(UploadError) -> Bool {
        try plan.step(.setLength)
        return try await base.setLength(of: id, to: length, updatedAt: updatedAt)
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        try plan.step(.setExpiry)
        try await base.setExpiry(of: id, to: date, updatedAt: updatedAt)
    }

    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        try plan.step(.expiredUploads)
        return try await base.expiredUploads(at: now, limit: limit)
    }

    package func forgetEnded(before date: Date) async throws(UploadError) {
        try plan.step(.forgetEnded)
        try await base.forgetEnded(before: date)
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        try plan.step(.needed)
        return try await base.needed(ids)
    }

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try plan.step(.media)
        return try await base.media(id)
    }

    package func insert(_ key: APIKey) async throws(UploadError) {
        try plan.step(.insertKey)
        try await base.insert(key)
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        try plan.step(.key)
        return try await base.key(digest: digest)
    }

    package func keys() async throws(UploadError) -> [APIKey] {
        try plan.step(.keys)
        return try await base.keys()
    }

    package func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        try plan.step(.revokeKey)
        return try await base.revokeKey(id, at: now)
    }

    package func check() async throws(UploadError) {
        try plan.step(.check)
        try await base.check()
    }
}
