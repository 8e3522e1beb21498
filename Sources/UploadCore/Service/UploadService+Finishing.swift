internal import Foundation
internal import Synchronization

extension UploadService {
    /// Leaves an upload to the storage that has begun to finish it, and completes it when that is done.
    ///
    /// To be called with the lease. Should the process die, the sweep of the next one completes it.
    ///
    /// - Returns: The upload, open, with its length.
    func finishLater(_ upload: Upload, under terms: QuotaTerms) async throws(UploadError) -> Upload {
        var upload = upload
        if upload.length == nil {
            // Whoever finds it later must know that these are all its bytes.
            upload.length = upload.offset
            upload.reservedBytes = upload.offset
            let isSet = try await state.setLength(of: upload.id, to: upload.offset, updatedAt: now, under: terms)
            guard isSet else { throw Self.gone }
        }
        if let attributes = upload.attributes {
            guard try await state.setAttributes(of: upload.id, to: attributes) else { throw Self.gone }
        }
        let id = upload.id
        if finishing.withLock({ $0.insert(id).inserted }) {
            // Not owned by the request, which is answered before this ends.
            Task {
                await finish(id)
                finishing.withLock { _ = $0.remove(id) }
            }
        }
        return upload
    }

    /// Asks again and again; what fails for long is left to the sweep.
    private func finish(_ id: UploadID) async {
        var failures = 0
        var wait = Duration.milliseconds(500)
        while failures < Self.mostFailures {
            try? await Task.sleep(for: wait)
            wait = min(wait * 2, .seconds(10))
            do throws(UploadError) {
                if try await status(of: id).state != .open { return }
            } catch {
                // Ended meanwhile: what the storage has made of it by now is needed by nobody.
                if error.code == .gone || error.code == .notFound, await removeBytes(of: id) { return }
                failures += 1
            }
        }
    }

    private static let mostFailures = 10

    /// Waits for an upload that the storage is finishing, for a client that has no way to ask later.
    ///
    /// - Parameter upload: As an append has returned it.
    /// - Returns: Completed; open if the task was cancelled, or the upload is not one that is being finished.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.unavailable`, `.storageFailure`.
    package func finished(_ upload: Upload) async throws(UploadError) -> Upload {
        var upload = upload
        while upload.state == .open, finishing.withLock({ $0.contains(upload.id) }) {
            do { try await Task.sleep(for: .milliseconds(500)) } catch { return upload }
            upload = try await status(of: upload.id)
        }
        return upload
    }
}
