internal import Digests
package import Foundation
package import UploadModel

/// Compares every record with its bytes, both ways, beside a running gateway and without changing anything.
///
/// A gateway creates bytes before their record and removes them after it. What looks wrong is therefore read again, the
/// record first: if it is still there and still does not match, it is wrong.
package struct StoreVerification: Sendable {
    private let state: any UploadRecords & MediaRecords & PartRecords & RetentionRecords
    private let storage: any InspectedStorage
    private let clock: any WallClock
    private let orphanAge: TimeInterval
    private let patience: Duration

    /// - Parameters:
    ///   - state: The records.
    ///   - storage: The bytes.
    ///   - clock: Of the records.
    ///   - orphanAge: See `UploadLimits.orphanAge`: younger bytes without a record may be about to be recorded.
    ///   - patience: How long bytes that are younger than a minute may wait for their record.
    package init(
        state: any UploadRecords & MediaRecords & PartRecords & RetentionRecords,
        storage: any InspectedStorage,
        clock: any WallClock,
        orphanAge: TimeInterval,
        patience: Duration = .seconds(2)
    ) {
        self.state = state
        self.storage = storage
        self.clock = clock
        self.orphanAge = orphanAge
        self.patience = patience
    }

    package enum Fault: String, Sendable, CaseIterable {
        /// A record whose bytes are not there.
        case missing
        /// Bytes of another length than the record says.
        case length
        /// A part of an open multipart upload whose bytes are missing or incomplete.
        case part
        /// Bytes that have another digest than the record says.
        case digest
        /// Bytes without a record.
        case unrecorded
    }

    package struct Finding: Sendable, Equatable {
        package var fault: Fault
        package var id: UploadID
        package var detail: String
    }

    package struct Outcome: Sendable, Equatable {
        /// Open and completed uploads that were compared.
        package var uploads = 0
        /// Blobs that were looked up in the records.
        package var blobs = 0
        /// Media whose bytes were read for their digests, and their size in bytes.
        package var digested = 0
        package var digestedBytes: Int64 = 0
        /// Bytes of uploads that ended, which the next sweep removes.
        package var ended = 0
        /// Bytes without a record that are too young to tell.
        package var young = 0
        package var findings = 0
    }

    /// - Parameters:
    ///   - readsDigests: Whether to read the bytes of media whose digests are recorded.
    ///   - progress: Called often with the progress.
    ///   - report: Called with each finding.
    /// - Returns: What was compared.
    /// - Throws: `.unavailable`, `.storageFailure` if records or bytes cannot be read.
    package func run(
        digests readsDigests: Bool,
        progress: (Outcome) -> Void = { _ in },
        report: (Finding) -> Void
    ) async throws(UploadError) -> Outcome {
        var outcome = Outcome()
        try await compareRecords(readsDigests, &outcome, progress, report)
        try await compareBlobs(&outcome, progress, report)
        return outcome
    }

    private static let pageSize = 500

    // MARK: Records

    private func compareRecords(
        _ readsDigests: Bool,
        _ outcome: inout Outcome,
        _ progress: (Outcome) -> Void,
        _ report: (Finding) -> Void
    ) async throws(UploadError) {
        var query = UploadQuery(states: [.open, .completed], limit: Self.pageSize)
        while true {
            let page = try await state.uploads(query)
            guard let last = page.last else { return }
            for start in stride(from: 0, to: page.count, by: Self.groupSize) {
                let group = page[start..<min(start + Self.groupSize, page.count)]
                for comparison in try await compare(Array(group), readsDigests) {
                    outcome.uploads += 1
                    outcome.digested += comparison.digestedBytes == nil ? 0 : 1
                    outcome.digestedBytes += comparison.digestedBytes ?? 0
                    if let finding = comparison.finding {
                        outcome.findings += 1
                        report(finding)
                    }
                    progress(outcome)
                }
            }
            query.before = last.id
        }
    }

    private struct Comparison: Sendable {
        var finding: Finding?
        /// Bytes that were read for their digests.
        var digestedBytes: Int64?
    }

    /// Most records that are compared at once: a store needs a round trip for each.
    private static let mostAtOnce = 16
    /// Records whose findings are reported together, in the order of the records.
    private static let groupSize = 4 * mostAtOnce

    /// Compares records with their bytes, several at once.
    ///
    /// - Returns: One comparison for each record, in the same order.
    private func compare(_ uploads: [Upload], _ readsDigests: Bool) async throws(UploadError) -> [Comparison] {
        let results = await withTaskGroup(of: (Int, Result<Comparison, UploadError>).self) {
            group -> [Result<Comparison, UploadError>?] in
            var results = [Result<Comparison, UploadError>?](repeating: nil, count: uploads.count)
            for (index, upload) in uploads.enumerated() {
                if index >= Self.mostAtOnce, let (done, result) = await group.next() {
                    results[done] = result
                    if case .failure = result { break }
                }
                group.addTask { (index, await comparison(of: upload, readsDigests)) }
            }
            for await (done, result) in group { results[done] = result }
            return results
        }
        var comparisons: [Comparison] = []
        // After a failure some were not begun: the failure itself is among the others.
        for result in results { if let result, case .failure(let error) = result { throw error } }
        for result in results { if let result { comparisons.append(try result.get()) } }
        return comparisons
    }

    private func comparison(of upload: Upload, _ readsDigests: Bool) async -> Result<Comparison, UploadError> {
        do throws(UploadError) {
            if let finding = try await confirmedFinding(of: upload) { return .success(Comparison(finding: finding)) }
            guard readsDigests, upload.state == .completed else { return .success(Comparison()) }
            return .success(try await digestComparison(of: upload.id))
        } catch {
            return .failure(error)
        }
    }

    /// How often something that looks wrong is read again: the record can change each time.
    private static let attempts = 4

    private func confirmedFinding(of upload: Upload) async throws(UploadError) -> Finding? {
        var upload = upload
        var finding = try await self.finding(of: upload)
        for _ in 1..<Self.attempts where finding != nil {
            guard let again = try await state.uploads([upload.id])[upload.id], again.isAlive else { return nil }
            upload = again
            finding = try await self.finding(of: upload)
        }
        return finding
    }

    private func finding(of upload: Upload) async throws(UploadError) -> Finding? {
        if upload.state == .open, upload.takesParts { return try await partFinding(of: upload.id) }
        // Its bytes are those of other uploads until it completes.
        if upload.state == .open, upload.concatenation?.parts != nil { return nil }
        let stored = try await storage.storedLength(of: upload.id)
        guard let stored else {
            let text = upload.state == .completed ? "completed with \(upload.length ?? 0) bytes" : "open"
            return Finding(fault: .missing, id: upload.id, detail: "the upload is \(text), and its bytes are not there")
        }
        guard let length = upload.length else { return nil }
        guard upload.state == .completed ? stored != length : stored > length else { return nil }
        return Finding(fault: .length, id: upload.id, detail: "the record says \(length) bytes, \(stored) are there")
    }

    private func partFinding(of id: UploadID) async throws(UploadError) -> Finding? {
        var last = 0
        var missing: [Int] = []
        do throws(UploadError) {
            repeat {
                let page = try await state.objectParts(of: id, after: last, limit: Self.pageSize)
                missing += try await storage.missingParts(among: page, of: id)
                guard let end = page.last else { break }
                last = end.number
            } while true
        } catch  where error.code == .notFound {
            return Finding(fault: .missing, id: id, detail: "the upload takes parts, and nothing is stored for it")
        }
        guard !missing.isEmpty else { return nil }
        let numbers = PartNumbersText(missing).text
        return Finding(fault: .part, id: id, detail: "bytes of recorded parts are missing or incomplete: \(numbers)")
    }

    private func digestComparison(of id: UploadID) async throws(UploadError) -> Comparison {
        guard let media = try await state.media(id) else { return Comparison() }
        let found: DigestValues
        var recorded = media.digests
        do throws(UploadError) {
            recorded.merge(try await storage.recordedDigests(of: id)) { known, _ in known }
            guard !recorded.isEmpty else { return Comparison() }
            found = try await storage.digests(of: id, by: Set(recorded.keys))
        } catch  where error.code == .notFound || error.code == .storageFailure {
            // Removed meanwhile, or it cannot be read.
            guard try await state.media(id) != nil else { return Comparison() }
            let detail = "its bytes cannot be read: \(error.message)"
            return Comparison(finding: Finding(fault: .digest, id: id, detail: detail))
        }
        var comparison = Comparison(digestedBytes: media.size)
        let wrong = recorded.filter { found[$0.key] != $0.value }.keys.map(\.rawValue).sorted()
        if !wrong.isEmpty {
            let names = wrong.joined(separator: ", ")
            let detail = "its bytes have another \(names) than recorded"
            comparison.finding = Finding(fault: .digest, id: id, detail: detail)
        }
        return comparison
    }

    // MARK: Bytes

    private func compareBlobs(
        _ outcome: inout Outcome,
        _ progress: (Outcome) -> Void,
        _ report: (Finding) -> Void
    ) async throws(UploadError) {
        var batch: [UploadID] = []
        var waiting: [UploadID] = []
        try await storage.findBlobs { blob throws(UploadError) in
            batch.append(blob.id)
            guard batch.count == Self.pageSize else { return }
            try await compareBlobs(batch, &waiting, &outcome, report)
            batch = []
            progress(outcome)
        }
        try await compareBlobs(batch, &waiting, &outcome, report)
        guard !waiting.isEmpty else { return }
        do { try await Task.sleep(for: patience) } catch { throw UploadError(.interrupted, "The command was stopped.") }
        for id in waiting { try await reportUnrecorded(id, &outcome, report) }
        progress(outcome)
    }

    /// Most young blobs that are asked again; a gateway creates far fewer at once.
    private static let mostWaiting = 10_000

    private func compareBlobs(
        _ ids: [UploadID],
        _ waiting: inout [UploadID],
        _ outcome: inout Outcome,
        _ report: (Finding) -> Void
    ) async throws(UploadError) {
        outcome.blobs += ids.count
        let needed = try await state.needed(ids)
        let others = ids.filter { !needed.contains($0) }
        guard !others.isEmpty else { return }
        let known = try await state.uploads(others)
        outcome.ended += known.count
        let now = clock.now
        for id in others where known[id] == nil {
            let age = now.timeIntervalSince(id.createdAt)
            if age < orphanAge {
                outcome.young += 1
            } else if age < 60, waiting.count < Self.mostWaiting {
                waiting.append(id)
            } else {
                try await reportUnrecorded(id, &outcome, report)
            }
        }
    }

    private func reportUnrecorded(
        _ id: UploadID,
        _ outcome: inout Outcome,
        _ report: (Finding) -> Void
    ) async throws(UploadError) {
        guard try await state.uploads([id])[id] == nil else { return }
        // Or removed meanwhile.
        let stored = try await storage.storedLength(of: id)
        if stored == nil {
            do throws(UploadError) {
                _ = try await storage.missingParts(among: [], of: id)
            } catch  where error.code == .notFound {
                return
            }
        }
        outcome.findings += 1
        let size = stored.map { "\($0) bytes" } ?? "parts"
        report(Finding(fault: .unrecorded, id: id, detail: "\(size) without a record"))
    }
}

/// Numbers in ascending order, as `1-3, 7`; at most some of them.
private struct PartNumbersText {
    let text: String

    init(_ numbers: [Int]) {
        var ranges: [ClosedRange<Int>] = []
        for number in numbers {
            if let last = ranges.last, last.upperBound == number - 1 {
                ranges[ranges.count - 1] = last.lowerBound...number
            } else {
                ranges.append(number...number)
            }
        }
        let texts = ranges.prefix(20).map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
        text = texts.joined(separator: ", ") + (ranges.count > 20 ? ", …" : "")
    }
}
