package import GatewayKit
internal import ObjectGateway
package import RESTKit
internal import SettingsKit
internal import ObjectGrants
internal import ObjectStore
internal import UploadCore
internal import UploadModel

/// Multipart uploads in Uppy's protocol.
package struct CompanionModule: GatewayModule {
    package let name = "Companion"
    package let routes: [Route]

    package init(_ context: GatewayContext) {
        routes =
            CompanionAPI(
                uploads: context.services.uploads,
                multipart: MultipartUploads(uploads: context.services.uploads, parts: context.services.parts),
                issuer: context.issuer,
                access: context.access,
                mintedURLs: context.metrics.mintCounter("presigned_url"),
                mintedSessions: context.metrics.mintCounter("sts_token"),
                objectURL: context.objectURL,
                region: context.settings.object.region,
                bucket: context.settings.object.buckets.first,
                bodyLimit: context.bodyLimit,
                clock: context.clock
            ).routes
    }
}
