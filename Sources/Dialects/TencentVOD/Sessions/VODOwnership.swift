package import GatewayKit
package import ObjectStore
package import UploadModel
internal import VODKit

/// Knows the media types of files that the upload SDKs send: many of them send none, or one for any file.
package struct VODOwnership: ObjectOwnership {
    private let place: VODPlace

    package init(_ context: GatewayContext) { place = VODPlace(context.settings) }

    /// The type is that of the extension that was announced.
    package func admit(_ name: ObjectName) async throws(UploadError) -> ObjectAdmission? {
        guard name.bucket == place.bucketName, name.key.hasPrefix(VODPlace.root + "/"),
            let last = name.key.split(separator: "/").last, let dot = last.lastIndex(of: ".")
        else { return nil }
        let type = MediaTypes.type(ofExtension: String(last[last.index(after: dot)...]))
        return ObjectAdmission(keptFor: nil, contentType: type)
    }

    /// A call commits it.
    package func stored(_ name: ObjectName) async {}
}
