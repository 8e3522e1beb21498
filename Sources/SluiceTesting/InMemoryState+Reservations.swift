package import Foundation
package import UploadModel

extension InMemoryState {
    package func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.state == .open, upload.length == nil else { return false }
            let changes = Accounting.reserving(length, for: upload)
            try tables.charge(changes, createdAt: upload.createdAt, under: effectiveLimits)
            tables.uploads[id]?.length = length
            tables.uploads[id]?.reservedBytes = length
            tables.uploads[id]?.updatedAt = updatedAt
            return true
        }
    }

    package func reserve(_ bytes: Int64, for id: UploadID, under effectiveLimits: EffectiveLimits)
        async throws(UploadError) -> Bool
    {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.state == .open else { return false }
            let changes = Accounting.reserving(bytes, for: upload)
            try tables.charge(changes, createdAt: upload.createdAt, under: effectiveLimits)
            tables.uploads[id]?.reservedBytes = bytes
            return true
        }
    }
}
