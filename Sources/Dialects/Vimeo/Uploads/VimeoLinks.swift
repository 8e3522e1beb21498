internal import Foundation
internal import Signing
internal import UploadCore
internal import UploadModel

/// The URLs to which bytes go; whoever knows one may send them.
struct VimeoLinks: Sendable {
    private let signer: LinkSigner
    private let tickets: LinkSigner
    let locator: UploadLocator

    init(master: MasterSecret, locator: UploadLocator) {
        signer = LinkSigner(master: master, purpose: "vimeo link v1")
        tickets = LinkSigner(master: master, purpose: "vimeo ticket v1")
        self.locator = locator
    }

    /// The path for approach `tus`: that of the upload.
    func tusPath(_ upload: UploadID) -> String { "/vimeo/files/\(locator.token(for: upload))" }

    /// The path for everything that is sent by PUT or as a form; it stays the same when a client begins anew.
    func path(_ video: VimeoVideo) -> String { path(video.id, of: video.user) }

    func path(_ id: Int64, of user: VimeoUser) -> String {
        // The subject is not in it, because it could be a mail address; it is signed through its number, and compared
        // by whoever reads the record.
        let text = "\(user.prefix)-\(id)"
        return "/vimeo/videos/\(text).\(signer.sign("\(text) \(user.subject)"))"
    }

    /// The path for the bytes of a picture or a text track.
    func path(_ attachment: VimeoAttachment) -> String {
        let text = "\(attachment.user.prefix)-\(attachment.video)-\(attachment.id)"
        let signature = signer.sign("\(attachment.kind.rawValue) \(text) \(attachment.subject)")
        return "/vimeo/\(attachment.kind.collection)/\(text).\(signature)"
    }

    /// The same as `target` for pictures and text tracks.
    func attachmentTarget(_ text: String) -> Target? {
        Self.target(text, ids: 2) { VimeoVideo.keyPart($0[0]) + "/" + String($0[1]) }
    }

    func verifies(_ target: Target, _ attachment: VimeoAttachment) -> Bool {
        signer.verify(
            "\(attachment.kind.rawValue) \(target.text) \(attachment.subject)",
            signature: target.signature
        )
    }

    /// The record that a path names, and whether the signature is that of its user.
    struct Target: Equatable {
        var recordKey: String
        var text: String
        var signature: String
    }

    /// - Returns: `nil` for text that is no link.
    func target(_ text: String) -> Target? { Self.target(text, ids: 1) { VimeoVideo.keyPart($0[0]) } }

    /// Reads a user's prefix, ids and a signature; `key` makes the rest of the record's key from the ids.
    private static func target(_ text: String, ids count: Int, key: ([Int64]) -> String) -> Target? {
        let halves = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard halves.count == 2 else { return nil }
        let names = halves[0].split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        let ids = names.dropFirst().compactMap { VimeoVideo.id($0) }
        guard let user = names.first, user.utf8.count == 16, user.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            names.count == count + 1, ids.count == count
        else { return nil }
        return Target(recordKey: user + "/" + key(ids), text: halves[0], signature: halves[1])
    }

    func verifies(_ target: Target, _ subject: String) -> Bool {
        signer.verify("\(target.text) \(subject)", signature: target.signature)
    }

    /// `complete_uri` of a ticket: path and query, without a host.
    func completionURI(_ video: VimeoVideo) -> String {
        let signature = tickets.sign(Self.ticketText(video.id, video.user))
        return "\(video.user.uri)/uploads/\(video.id)?video_file_id=\(video.id)&upgrade=true&signature=\(signature)"
    }

    private static func ticketText(_ id: Int64, _ user: VimeoUser) -> String { "\(user.number) \(id) \(user.subject)" }

    func verifiesTicket(_ id: Int64, of user: VimeoUser, _ signature: String) -> Bool {
        tickets.verify(Self.ticketText(id, user), signature: signature)
    }
}
