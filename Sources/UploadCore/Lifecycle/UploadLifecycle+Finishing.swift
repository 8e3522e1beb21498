internal import Foundation
internal import Synchronization
internal import UploadModel

extension UploadLifecycle {
    /// Completes an upload in the background, as soon as the storage has finished it.
    ///
    /// Requires the lease. If the process dies, the sweep of the next one completes the upload.
    ///
    /// - Returns: The open upload with its length.
    func finishLater(_ upload: Upload, under effectiveLimits: EffectiveLimits) async throws(UploadError) -> Upload {
        var upload = upload
        if upload.length == nil {
            // The length shows later readers that these are all its bytes.
            upload.length = upload.offset
            upload.reservedBytes = upload.offset
            var fixed = upload
            fixed.updatedAt = now
            _ = try await ledger.fixLength(of: fixed, under: effectiveLimits)
        }
        if let attributes = upload.attributes {
            guard try await state.setAttributes(of: upload.id, to: attributes) else { throw UploadError.uploadEnded }
        }
        let id = upload.id
        if finishing.withLock({ $0.insert(id).inserted }) {
            // Not owned by the request, which gets its response before this ends.
            Task {
                await finish(id)
                finishing.withLock { _ = $0.remove(id) }
            }
        }
        return upload
    }

    /// Retries until the storage has finished; if that keeps failing, the sweep takes over.
    private func finish(_ id: UploadID) async {
        var failures = 0
        var wait = Duration.milliseconds(500)
        while failures < Self.mostFailures {
            try? await Task.sleep(for: wait)
            wait = min(wait * 2, .seconds(10))
            do throws(UploadError) {
                if try await status(of: id).state != .open { return }
            } catch {
                // The upload ended meanwhile, so what the storage has assembled is not needed.
                if error.code == .gone || error.code == .notFound, await removeBytes(of: id) { return }
                failures += 1
            }
        }
    }

    private static let mostFailures = 10

    /// Waits until the storage has finished an upload, for a client that has no way to ask later.
    ///
    /// - Parameter upload: As an append returned it.
    /// - Returns: The completed upload; still open if the task was cancelled or the storage is not finishing it.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.unavailable`, `.storageFailure`.
    func finished(_ upload: Upload) async throws(UploadError) -> Upload {
        var upload = upload
        while upload.state == .open, finishing.withLock({ $0.contains(upload.id) }) {
            do { try await Task.sleep(for: .milliseconds(500)) } catch { return upload }
            upload = try await status(of: upload.id)
        }
        return upload
    }
}
