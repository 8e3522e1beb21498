internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Tickets that become videos at Vimeo.
extension VimeoBroker {
    /// `DELETE complete_uri`: the ticket becomes a video at Vimeo, to which its bytes then go.
    func complete(_ ticket: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        let signature = try VimeoVideoCalls.signature(call.query)
        let key = VimeoVideo.recordKey(ticket, of: call.user)
        var isThere = try await known(key, call.user) != nil
        if !isThere { isThere = try await core(await library.entry(ticket, of: call.user)?.video.isTicket) ?? false }
        // Another request may have completed it in between.
        if !isThere { isThere = try await known(key, call.user) != nil }
        guard isThere else { throw VimeoError.refused(.noVideoFile) }
        guard local.links.verifiesTicket(ticket, of: call.user, signature) else {
            throw VimeoError.refused(.badSignature)
        }
        let transfer = try await completed(ticket, key, call)
        try await core(await transfers.adopt(transfer))
        transfers.arrived(key)
        return VimeoVideoCalls.completed(transfer.videoURI, uploadID: nil)
    }

    /// What a ticket has become.
    func known(_ key: String, _ user: VimeoUser) async throws(VimeoError) -> VimeoTransfer? {
        guard let transfer = try await core(await transfers.one(key)?.content), transfer.approach == .ticket,
            transfer.subject.isSameSubject(as: user.subject)
        else { return nil }
        return transfer
    }

    /// Makes a video at Vimeo of a ticket; of several requests at once, one does.
    func completed(_ ticket: Int64, _ key: String, _ call: VimeoCall) async throws(VimeoError) -> VimeoTransfer {
        for attempt in 1...Self.mostAttempts {
            if let known = try await known(key, call.user) { return known }
            if try await core(await transfers.lock(key)) {
                do throws(VimeoError) {
                    let transfer = try await complete(ticket, key, call)
                    await transfers.unlock(key)
                    return transfer
                } catch {
                    await transfers.unlock(key)
                    throw error
                }
            }
            try await VimeoUploads.pause(.milliseconds(min(500, 20 * attempt)))
        }
        throw VimeoError.refused(.busy)
    }

    /// For some seconds longer than a call of Vimeo may take.
    static let mostAttempts = 80

    func complete(_ ticket: Int64, _ key: String, _ call: VimeoCall) async throws(VimeoError) -> VimeoTransfer {
        if let known = try await known(key, call.user) { return known }
        guard let entry = try await core(await library.entry(ticket, of: call.user)), entry.video.isTicket else {
            throw VimeoError.refused(.noVideoFile)
        }
        if let replaced = entry.video.replaces, try await core(await videos.one(replaced, of: call.user)) == nil {
            throw VimeoError(404, 5012, "The video to replace could not be found.")
        }
        let upload = try await local.uploads.finish(entry)
        let made = try await make(
            upload.offset,
            entry.video.said.flatMap { VimeoUpstream.members(Array($0.utf8)) } ?? [:],
            replacing: entry.video.replaces,
            named: entry.video.metadata["filename"],
            call
        )
        let transfer = try await transfer(of: entry, to: made)
        if try await core(await transfers.insert(transfer)) { return transfer }
        // The lock has expired, and another request did it meanwhile.
        await upstream.delete(made.uri)
        guard let winner = try await known(key, call.user) else { throw VimeoError.refused(.busy) }
        return winner
    }
}
