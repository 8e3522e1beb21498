internal import Foundation
package import GatewayKit
package import RESTKit
package import ServiceLifecycle
package import UploadCore
internal import UploadModel

/// Management API for app servers: uploads, media, quotas, revocations.
package struct ManagementModule: GatewayModule {
    package let name = "management"
    package let routes: [Route]
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
        routes = uploads.routes + media.routes + quota.routes + revocations.routes + keys.routes
    }
}
