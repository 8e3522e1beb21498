package import Bytes
internal import Digests
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

extension DiskStorage {
    /// Bytes per piece; an append holds at most two pieces in memory.
    private static let pieceSize = 256 * 1024
    /// After this many bytes the kernel is asked to start writing them, so that the final sync is short.
    private static let writebackSize: Int64 = 8 << 20
    /// The same for a source that transfers bytes itself.
    private static let transferSize: Int64 = 32 << 20
    /// Minimum number of new bytes for an additional sync during an append.
    private static let checkpointSize: Int64 = 4 << 20
    /// How much space a file may occupy beyond its content: the file system rounds up and needs metadata.
    private static let allocationSlack: Int64 = 256 * 1024

    package func append(
        to id: UploadID,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        of total: Int64?,
        expecting digest: DigestExpectation?,
        confirming: ((Int64) async -> Void)?
    ) async -> AppendReport {
        let file: OpenFile
        do throws(UploadError) {
            file = try await openForAppending(id, at: offset)
        } catch {
            return AppendReport(stored: 0, end: .failed(error))
        }
        guard let digest else {
            let outcome = await receive(id, from: source, into: file, at: offset, limit: limit)
            return await pool.run { [self] io in
                // The file is closed here: not every thread that may release it may block.
                defer { io.close(file) }
                return keep(outcome, of: id, file, base: offset, anchored(io))
            }
        }
        if case .known(let digest) = digest, let remaining = source.remaining,
            remaining <= min(limit, Int64(Self.pieceSize))
        {
            return await appendGathered(id, file, at: offset, from: source, digest)
        }
        return await appendMarked(id, file, at: offset, from: source, limit: limit, digest)
    }

    private func openForAppending(_ id: UploadID, at offset: Int64) async throws(UploadError) -> OpenFile {
        let (file, length) = try await onBlob { storage, io throws(SystemError) in
            let blob = try storage.openForAppending(id, at: offset, io)
            return (blob.file, blob.length)
        }
        guard length == offset else { throw Self.mismatch(at: length) }
        return file
    }

    /// Receives bytes; syncs repeatedly during a long append.
    private func receive(
        _ id: UploadID,
        from source: any ByteSource,
        into file: OpenFile,
        at offset: Int64,
        limit: Int64
    ) async -> TransferOutcome {
        guard durability == .acknowledged, min(source.remaining ?? .max, limit) > Self.checkpointSize else {
            return await move(from: source, to: file, at: offset, limit: limit)
        }
        // Cancelled and awaited when this call ends.
        async let _ = checkpoint(id, file)
        return await move(from: source, to: file, at: offset, limit: limit)
    }

    private func move(
        from source: any ByteSource,
        to file: OpenFile,
        at offset: Int64,
        limit: Int64
    ) async -> TransferOutcome {
        source.supportsTransfer
            ? await transfer(from: source, to: file, at: offset, limit: limit)
            : await copy(from: source, to: file, at: offset, limit: limit, digest: nil)
    }

    /// Makes received bytes durable at intervals, so that a power cut during a long append loses only the latest ones.
    ///
    /// Failures are reported by the final sync: see `untrustedTails`.
    private func checkpoint(_ id: UploadID, _ file: OpenFile) async {
        while true {
            do { try await Task.sleep(for: checkpointInterval) } catch { return }
            await pool.run { [self] io in
                guard let size = try? io.size(of: file), size - (durable.length(of: id) ?? 0) >= Self.checkpointSize
                else {
                    return
                }
                try? synchronize(id, file, length: size, io)
            }
        }
    }

    /// Lets the source transfer its bytes into the file; each section is written to disk while the next one arrives.
    private func transfer(
        from source: any ByteSource,
        to file: OpenFile,
        at offset: Int64,
        limit: Int64
    ) async -> TransferOutcome {
        var moved: Int64 = 0
        var last: Int64 = 0
        while true {
            let start = offset + moved
            let section = min(limit - moved, Self.transferSize)
            let coming = start..<start + min(section, source.remaining ?? 0)
            // In parallel with the transfer: the sender must not wait for it.
            async let hints: Void = hint(file, written: start - last..<start, coming: coming)
            let outcome = await source.transfer(to: file, at: start, limit: section, on: pool)
            await hints
            moved += outcome.moved
            last = outcome.moved
            guard outcome.end == .limitReached, moved < limit else {
                return TransferOutcome(moved: moved, end: outcome.end)
            }
        }
    }

    /// Tells the kernel which bytes were written and how many will follow.
    ///
    /// Errors are ignored: they recur where they are reported.
    private func hint(_ file: OpenFile, written: Range<Int64>, coming: Range<Int64>) async {
        // Not in the first section, so that many slow uploads do not reserve space that others need now.
        guard !written.isEmpty else { return }
        await pool.run { [durability] io in
            if durability == .acknowledged {
                io.startWriteback(of: file, at: written.lowerBound, count: Int64(written.count))
            }
            if !coming.isEmpty { io.preallocate(file, at: coming.lowerBound, count: Int64(coming.count)) }
        }
    }

    /// Pulls pieces and writes them; writes one while it pulls the next.
    func copy(
        from source: any ByteSource,
        to file: OpenFile,
        at offset: Int64,
        limit: Int64,
        digest: RunningDigest?
    ) async -> TransferOutcome {
        var moved: Int64 = 0
        var next = await pull(from: source, limit: limit)
        while case .piece(let piece) = next {
            let position = offset + moved
            async let writing = pool.run { [self] io in write(piece, to: file, at: position, digest, io) }
            next = await pull(from: source, limit: limit - moved - Int64(piece.count))
            let (count, failure) = await writing
            moved += Int64(count)
            if let failure { return TransferOutcome(moved: moved, end: .fileFailed(errno: failure.errno)) }
        }
        guard case .end(let end) = next else { return TransferOutcome(moved: moved, end: .endOfSource) }
        return TransferOutcome(moved: moved, end: end)
    }

    private enum Pulled {
        case piece([UInt8])
        case end(TransferOutcome.End)
    }

    private func pull(from source: any ByteSource, limit: Int64) async -> Pulled {
        guard limit > 0 else { return .end(.limitReached) }
        do throws(SourceFailure) {
            guard let piece = try await source.next(maximum: Int(min(limit, Int64(Self.pieceSize)))) else {
                return .end(.endOfSource)
            }
            return .piece(piece)
        } catch {
            return .end(.sourceFailed(error))
        }
    }

    // MARK: Steps, on the pool

    private func write(
        _ piece: [UInt8],
        to file: OpenFile,
        at position: Int64,
        _ digest: RunningDigest?,
        _ io: BlockingIO
    ) -> (count: Int, failure: SystemError?) {
        digest?.update(piece)
        let result = io.write(piece, to: file, at: position)
        let end = position + Int64(result.count)
        if durability == .acknowledged, end / Self.writebackSize > position / Self.writebackSize {
            let start = (end / Self.writebackSize - 1) * Self.writebackSize
            io.startWriteback(of: file, at: start, count: Self.writebackSize)
        }
        return result
    }

    /// Keeps received bytes, whatever ended the append: truncates the file to exactly these bytes and makes them
    /// durable.
    func keep(
        _ outcome: TransferOutcome,
        of id: UploadID,
        _ file: OpenFile,
        base: Int64,
        _ io: BlockingIO
    ) -> AppendReport {
        do throws(SystemError) {
            let length = try trim(file, to: base + outcome.moved, io)
            if durability == .acknowledged { try synchronize(id, file, length: length, io) }
            return AppendReport(stored: length - base, end: AppendReport.End(outcome.end))
        } catch {
            return distrust(id, file, after: base, error, io)
        }
    }

    /// Removes what is beyond a length, and releases space that was reserved for bytes that did not arrive, now or before a crash.
    ///
    /// - Returns: The length that the file has now.
    func trim(_ file: OpenFile, to most: Int64, _ io: BlockingIO) throws(SystemError) -> Int64 {
        let status = try io.status(of: file)
        let length = min(status.size, most)
        if status.size > length || status.allocated > length + Self.allocationSlack {
            try io.truncate(file, to: length)
        }
        return length
    }

    /// Only some of the bytes after `base` may be on the disk, and they must not count as content.
    func distrust(
        _ id: UploadID,
        _ file: OpenFile,
        after base: Int64,
        _ error: SystemError,
        _ io: BlockingIO
    ) -> AppendReport {
        untrustedTails.note(id, countingOnly: base)
        try? truncateUntrusted(id, file, io)
        return AppendReport(stored: 0, end: .failed(UploadError(error)))
    }
}

// MARK: - With a digest

extension DiskStorage {
    /// A small body is verified before any of it is written.
    private func appendGathered(
        _ id: UploadID,
        _ file: OpenFile,
        at offset: Int64,
        from source: any ByteSource,
        _ digest: ExpectedDigest
    ) async -> AppendReport {
        let bytes: [UInt8]
        do throws(SourceFailure) {
            bytes = try await source.collect(limit: Self.pieceSize)
        } catch {
            return AppendReport(stored: 0, end: .sourceFailed(error))
        }
        return await pool.run { [self] io in
            let io = anchored(io)
            defer { io.close(file) }
            guard constantTimeEquals(Digest.hash(bytes, digest.algorithm), digest.value) else {
                return AppendReport(stored: 0, end: .failed(Self.mismatch))
            }
            let (count, failure) = io.write(bytes, to: file, at: offset)
            guard let failure else {
                return keep(
                    TransferOutcome(moved: Int64(count), end: .endOfSource),
                    of: id,
                    file,
                    base: offset,
                    io
                )
            }
            // A part of a verified body is not verified.
            return keep(
                TransferOutcome(moved: 0, end: .fileFailed(errno: failure.errno)),
                of: id,
                file,
                base: offset,
                io
            )
        }
    }

    /// A large body is written under a marker, so that its bytes are discarded after a crash.
    private func appendMarked(
        _ id: UploadID,
        _ file: OpenFile,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        _ expectation: DigestExpectation
    ) async -> AppendReport {
        do throws(UploadError) {
            try await onPool { storage, io throws(SystemError) in try storage.marker(of: id).place(base: offset, io) }
        } catch {
            return AppendReport(stored: 0, end: .failed(error))
        }
        // A digest that is only known at the end can use any algorithm: the bytes are then read again, mostly from the
        // page cache.
        let running: RunningDigest? =
            if case .known(let digest) = expectation { RunningDigest(digest.algorithm) } else { nil }
        let outcome = await copy(from: source, to: file, at: offset, limit: limit, digest: running)
        let verdict = await verdict(on: outcome, expectation, source)
        return await pool.run { [self] io in
            let io = anchored(io)
            defer { io.close(file) }
            var report: AppendReport
            switch verdict {
            case .verify(let digest):
                report = verify(outcome, against: digest, running, of: id, file, base: offset, io)
            case .discard(let end): report = AppendReport(stored: 0, end: end)
            }
            do throws(SystemError) {
                if report.stored > 0 {
                    try marker(of: id).remove(io)
                } else {
                    try marker(of: id).recover(file, io)
                    durable.forget(id)
                }
            } catch {
                // The marker stays, and the next access discards the bytes.
                durable.forget(id)
                report = AppendReport(stored: 0, end: .failed(UploadError(error)))
            }
            return report
        }
    }

    private enum Verdict: Sendable {
        case verify(ExpectedDigest)
        case discard(AppendReport.End)
    }

    /// Decides whether received bytes can be verified or must be discarded.
    private func verdict(
        on outcome: TransferOutcome,
        _ expectation: DigestExpectation,
        _ source: any ByteSource
    ) async -> Verdict {
        switch outcome.end {
        case .sourceFailed, .fileFailed: return .discard(AppendReport.End(outcome.end))
        case .endOfSource, .limitReached: break
        }
        if case .atEnd = expectation, outcome.end == .limitReached {
            // The digest comes only after the end of the content, and it covers bytes beyond the limit, too.
            do throws(SourceFailure) {
                if try await source.next(maximum: 1) != nil { return .discard(.limitReached) }
            } catch {
                return .discard(.sourceFailed(error))
            }
        }
        do throws(UploadError) {
            return .verify(try expectation.value())
        } catch {
            return .discard(.failed(error))
        }
    }

    /// Keeps received bytes if their digest is `digest`; runs on the pool.
    private func verify(
        _ outcome: TransferOutcome,
        against digest: ExpectedDigest,
        _ running: RunningDigest?,
        of id: UploadID,
        _ file: OpenFile,
        base: Int64,
        _ io: BlockingIO
    ) -> AppendReport {
        do throws(SystemError) {
            let value: [UInt8]
            if let running {
                value = running.finish()
            } else {
                value = try hash(of: id, base..<base + outcome.moved, digest.algorithm, io)
            }
            guard constantTimeEquals(value, digest.value) else {
                return AppendReport(stored: 0, end: .failed(Self.mismatch))
            }
            return keep(outcome, of: id, file, base: base, io)
        } catch {
            return AppendReport(stored: 0, end: .failed(UploadError(error)))
        }
    }

    private func hash(
        of id: UploadID,
        _ range: Range<Int64>,
        _ algorithm: DigestAlgorithm,
        _ io: BlockingIO
    ) throws(SystemError) -> [UInt8] {
        let file = try io.open(directory.blobPath(id), O_RDONLY)
        let digest = RunningDigest(algorithm)
        try Self.update([digest], with: range, of: file, io)
        return digest.finish()
    }

    private static let mismatch = UploadError(
        .checksumMismatch,
        "The bytes do not have the announced checksum; send them again from the same offset."
    )
}
