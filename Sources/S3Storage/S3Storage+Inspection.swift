package import UploadModel

extension S3Storage: InspectedStorage {
    package func storedLength(of id: UploadID) async throws(UploadError) -> Int64? {
        guard let record = try await records.blob(id) else { return nil }
        if record.state != .open {
            let head = try await headOf(record.key, in: record.bucket)
            if let head { return head.size }
            if record.state == .complete { return nil }
        }
        // Bytes count up to the first that is missing.
        let there = Dictionary(try await storedParts(of: record).map { ($0.number, $0.size) }) { $1 }
        var length: Int64 = 0
        for part in try await records.parts(of: id) {
            guard there[part.number] == part.size else { return length }
            length += part.size
        }
        for tail in record.tails {
            guard try await headOf(tail.key, in: record.bucket)?.size == tail.length else { return length }
            length += tail.length
        }
        return length
    }

    package func missingParts(among parts: [PartRecord], of id: UploadID) async throws(UploadError) -> [Int] {
        let record = try await record(of: id)
        guard record.state == .open else { return [] }
        let there = Dictionary(try await storedParts(of: record).map { ($0.number, $0.size) }) { $1 }
        var missing: [Int] = []
        for part in parts {
            let size =
                if let small = SmallPart(location: part.location) {
                    try await headOf(tailPrefix(of: id) + small.name, in: record.bucket)?.size
                } else { there[part.number] }
            if size != part.size { missing.append(part.number) }
        }
        return missing
    }

    private func headOf(_ key: String, in bucket: String) async throws(UploadError) -> S3ObjectHead? {
        try await convertingFailures { () async throws(S3Failure) in try await client.head(key, in: bucket) }
    }

    private func storedParts(of record: BlobRecord) async throws(UploadError) -> [BlobPart] {
        guard record.multipart != nil else { return [] }
        return try await convertingFailures { () async throws(S3Failure) in
            do throws(S3Failure) {
                return try await client.parts(of: record)
            } catch  where error.kind == .missing {
                return []
            }
        }
    }
}
