package import UploadModel

extension FaultyStorage: WholeBlobStorage {
    package var wholeStorage: (any WholeBlobStorage)? { base.wholeStorage == nil ? nil : self }

    package func create(_ blob: NewBlob, with content: [UInt8]) async throws(UploadError) {
        try await plan.step(.createWhole)
        guard let whole = base.wholeStorage else {
            throw UploadError(.storageFailure, "The storage below takes no whole blobs.")
        }
        try await whole.create(blob, with: content)
    }
}

extension FaultyStorage: SmallAppendStorage {
    package var smallAppendStorage: (any SmallAppendStorage)? { base.smallAppendStorage == nil ? nil : self }

    package func append(
        _ content: [UInt8],
        to id: UploadID,
        at offset: Int64,
        isLast: Bool
    ) async -> AppendReport {
        guard let small = base.smallAppendStorage else { return Self.refused }
        do throws(UploadError) {
            try await plan.step(.append)
        } catch {
            return AppendReport(stored: 0, end: .failed(error))
        }
        guard let fault = takeAppendFault(), fault.bytes < content.count else {
            // What follows is a step of its own, which can fail.
            return await small.append(content, to: id, at: offset, isLast: false)
        }
        let report = await small.append(
            Array(content.prefix(Int(fault.bytes))),
            to: id,
            at: offset,
            isLast: false
        )
        guard case .endOfSource = report.end else { return report }
        return AppendReport(stored: report.stored, end: .failed(fault.error))
    }

    private static let refused = AppendReport(
        stored: 0,
        end: .failed(UploadError(.storageFailure, "The storage below appends nothing at once."))
    )
}
