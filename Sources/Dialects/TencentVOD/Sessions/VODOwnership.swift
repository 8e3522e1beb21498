internal import Bytes
internal import GatewayKit
internal import ObjectStore
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The media of Tencent VOD, for the object endpoint.
///
/// It knows the media types of files that the upload SDKs send: many of them send none, or one for any file. It learns when
/// an object of media is replaced by those who may write to the bucket.
struct VODOwnership: ObjectOwnership {
    private let place: VODPlace
    let library: VODLibrary
    let events: VODEvents

    init(_ context: GatewayContext) {
        place = VODPlace(context.settings)
        library = VODLibrary(records: context.state, objects: context.services.objects, clock: context.clock)
        events = VODEvents(mode: context.settings.vodEvents, library: library)
    }

    init(place: VODPlace, events: VODEvents) {
        self.place = place
        library = events.library
        self.events = events
    }

    /// The type is that of the extension that was announced.
    func admit(_ name: ObjectName) async throws(UploadError) -> ObjectAdmission? {
        guard name.bucket == place.bucketName, name.key.hasPrefix(VODPlace.root + "/"),
            let last = name.key.split(separator: "/").last, let dot = last.lastIndex(of: ".")
        else { return nil }
        let type = MediaTypes.type(ofExtension: String(last[last.index(after: dot)...]))
        return ObjectAdmission(keptFor: nil, contentType: type)
    }

    /// A call commits what a session brings; what replaces it afterwards changes the record of the media.
    func stored(_ name: ObjectName) async {
        guard name.bucket == place.bucketName, let (application, fileID) = VODPlace.media(of: name.key) else { return }
        // On a failure, the next look at the media finds it.
        guard let found = try? await library.media(fileID, of: application) else { return }
        let media = found.content
        let isPart = media.segments.map { name.key.utf8.starts(with: $0.key.utf8) } ?? false
        guard name.key.isExactly(media.video.key) || isPart, name.key != media.cover?.key else { return }
        _ = try? await library.settled(found, telling: events, isCertain: true)
    }
}
