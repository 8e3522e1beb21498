internal import Foundation
package import GatewayKit
internal import HTTPWire
package import RESTKit
package import ServiceLifecycle
package import UploadCore
internal import UploadModel

/// Management API for app servers: uploads, media, quotas, revocations.
package struct ManagementModule: GatewayModule {
    package let name = "management"
    package let routes: [Route]
    package let claims: [Claim]
    package let services: [any Service]

    package init(_ context: GatewayContext, pulls: PullService) {
        let audit = AuditLog(context.logger)
        let uploads = UploadsAPI(
            service: context.services.uploads,
            names: context.names,
            access: context.access,
            bodyLimit: context.bodyLimit,
            pulls: pulls,
            audit: audit
        )
        let media = MediaAPI(
            service: context.services.media,
            uploads: context.services.uploads,
            names: context.names,
            links: MediaLinks(master: context.master),
            access: context.access,
            publicURL: context.publicURL,
            bodyLimit: context.bodyLimit,
            clock: context.clock,
            revoked: context.revoked,
            allowsDownloads: context.settings.uploads.downloads,
            locator: context.locator,
            urls: context.urls,
            audit: audit
        )
        let quota = QuotaAPI(
            service: context.services.quota,
            access: context.access,
            bodyLimit: context.bodyLimit,
            audit: audit
        )
        let revocations = RevocationsAPI(
            state: context.state,
            revoked: context.revoked,
            access: context.access,
            bodyLimit: context.bodyLimit,
            clock: context.clock,
            skew: TimeInterval(context.settings.limits.clockSkewSeconds),
            audit: audit
        )
        let keys = KeysAPI(
            state: context.state,
            revoked: context.revoked,
            access: context.access,
            bodyLimit: context.bodyLimit,
            clock: context.clock,
            audit: audit
        )
        services = [
            KeyUseService(uses: context.authenticator.uses, state: context.state, logger: context.logger)
        ]
        claims =
            context.settings.uploads.downloadsByUploadURL ? [Self.contentClaim(media, context.cors)] : []
        routes = uploads.routes + media.routes + quota.routes + revocations.routes + keys.routes
    }

    /// GET on the upload URLs of complete uploads.
    private static func contentClaim(_ media: MediaAPI, _ cors: CORSPolicy) -> Claim {
        Claim(
            ["/files", "/files/{upload}"],
            when: Claim.Condition(text: "content of complete uploads") { UploadSettings.isForContent($0) },
            operations: []
        ) { request in
            var response = await media.contentByUploadURL(request)
            cors.decorate(&response, for: request.head)
            return response
        }
    }
}
