internal import Foundation
package import GatewayKit
internal import HTTPWire
package import RESTKit
internal import SettingsKit
internal import UploadCore
internal import UploadModel

/// tus at `/files`, and its tokens and uploads for app servers.
package struct TusModule: GatewayModule {
    package let name = "tus"
    package let routes: [Route]
    package let claims: [Claim]

    package init(_ context: GatewayContext) {
        routes =
            TusAPI(
                service: context.services.uploads,
                locator: context.locator,
                sealer: context.sealer,
                access: context.access,
                minted: context.metrics.mintCounter("tus_token"),
                publicURL: context.publicURL,
                bodyLimit: context.bodyLimit,
                clock: context.clock,
                buckets: context.buckets
            ).routes
        let (authenticator, urls, publicURL) = (context.authenticator, context.urls, context.publicURL)
        let handler = TusHandler(
            service: context.services.uploads,
            locator: context.locator,
            grants: { head throws(UploadError) in
                try await authenticator.grantToUpload(dialect: "tus", authorization: head.fields["Authorization"])
            },
            admits: { id throws(UploadError) in try await urls.check(id) },
            settings: context.tusSettings,
            baseURL: { publicURL.base(for: $0) + "/files" }
        )
        claims = [
            Claim(
                ["/files", "/files/{upload}"],
                dialect: .tus,
                operations: TusHandler.routes.map { (method: $0.0, template: $0.1) },
                // A browser sends the preflight, and it says nothing about protocols.
                isDescription: { $0.fields.contains("Tus-Version") },
                refuse: { handler.refuse($0, $1) }
            ) { request in
                var below = request
                below.head.target = request.head.target.dropFirstSegment()
                return await handler.respond(to: below)
            }
        ]
    }
}

extension GatewayContext {
    package var tusSettings: TusSettings {
        TusSettings(
            cors: cors,
            deletesComplete: settings.uploads.deleteAfterCompletion,
            terminates: settings.uploads.termination,
            goneIsNotFound: settings.uploads.goneStatus == .notFound
        )
    }
}

extension RequestTarget {
    /// The target as a handler below the first segment sees it.
    fileprivate func dropFirstSegment() -> RequestTarget {
        RequestTarget(rawPath: rawPath, rawQuery: rawQuery, authority: authority, segments: Array(segments.dropFirst()))
    }
}
