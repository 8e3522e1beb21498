internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Tickets, which a call of their own completes.
extension VimeoUploads {
    /// Makes a video of a ticket.
    ///
    /// - Returns: The video; also if it was completed before.
    /// - Throws: `VimeoError` 4011 if bytes are missing.
    func complete(_ entry: VimeoEntry) async throws(VimeoError) -> VimeoVideo {
        guard entry.video.isTicket else { return entry.video }
        let upload = try await finish(entry)
        if let replaced = entry.video.replaces { return try await replace(replaced, by: entry, upload) }
        let now = clock.now.unixSeconds
        let changed = try await core(
            await library.change(entry) { video in
                var video = video
                video.isTicket = false
                video.modifiedAt = now
                return video
            }
        )
        guard let changed else { throw VimeoError.refused(.notFound) }
        return changed
    }

    /// Completes the upload of a ticket.
    ///
    /// - Returns: The upload.
    /// - Throws: `VimeoError` 4011 if bytes are missing.
    func finish(_ ticket: VimeoEntry) async throws(VimeoError) -> Upload {
        var ticket = ticket
        var attempts = 0
        while true {
            do throws(VimeoError) {
                return try await finishOnce(ticket)
            } catch {
                // Another request completes it, too.
                guard attempts < Self.mostAttempts, case .core(let cause) = error,
                    [.notOpen, .interrupted, .busy, .notFound, .gone].contains(cause.code)
                else { throw error }
                attempts += 1
                try await Self.pause(.milliseconds(5 * attempts))
                guard let current = try await core(await library.entry(at: ticket.record.record.key)) else {
                    throw VimeoError.refused(.noVideoFile)
                }
                ticket = current
            }
        }
    }

    private func finishOnce(_ ticket: VimeoEntry) async throws(VimeoError) -> Upload {
        switch ticket.video.failure {
        // Not what the client wanted to store: it may not have read the answer to its bytes (protocol notes §8.3).
        case .quota: throw VimeoError(403, 4101, "You have reached your upload quota.", "The bytes were refused.")
        case .total: throw VimeoError(403, 3428, "You have reached your upload quota.", "The bytes were refused.")
        case .uploading: throw VimeoError(400, 2502, "The file is not a video.", "The bytes were refused.")
        case nil: break
        }
        guard let upload = ticket.upload else { throw Self.incomplete(0, ticket.video.size ?? 1) }
        guard upload.state == .open else { return upload }
        let current = try await core(await uploads.status(of: upload.id, .explicit(isLast: false)))
        // Of an empty file, PyVimeo before 1.0 sends nothing.
        let missing = (current.length ?? current.offset) - current.offset
        guard missing == 0 else { throw Self.incomplete(current.offset, missing) }
        do throws(UploadError) {
            let completed = try await uploads.append(
                to: current.id,
                at: current.offset,
                contentLength: 0,
                finish: .explicit(isLast: true),
                expecting: nil,
                from: ArraySource([])
            )
            return try await uploads.finished(completed)
        } catch {
            guard error.code == .contentTypeRefused else { throw .core(error) }
            try await core(await failIfEnded(ticket, upload))
            throw VimeoError(400, 2502, "The file is not a video.", error.message)
        }
    }

    /// Gives a video the file of a ticket, which stays so that its client can ask again.
    private func replace(_ id: Int64, by ticket: VimeoEntry, _ upload: Upload) async throws(VimeoError) -> VimeoVideo {
        guard let entry = try await core(await library.entry(id, of: ticket.video.user)), !entry.video.isTicket,
            let video = try await attach(upload, ticket.video.metadata["filename"], to: entry)
        else { throw VimeoError(404, 5012, "The video to replace could not be found.") }
        return video
    }

    private static func incomplete(_ stored: Int64, _ missing: Int64) -> VimeoError {
        VimeoError(
            400,
            4011,
            "The upload is not complete.",
            "\(stored) bytes have arrived, and \(missing) are missing; send them, then complete again."
        )
    }
}
