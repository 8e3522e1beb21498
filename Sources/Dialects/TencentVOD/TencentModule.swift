package import GatewayKit
package import RESTKit
internal import SettingsKit

/// Signatures for the upload SDKs of Tencent Cloud VOD.
package struct TencentModule: GatewayModule {
    package let name = "Tencent VOD"
    package let routes: [Route]

    package init(_ context: GatewayContext) {
        routes =
            TencentAPI(
                issuer: context.settings.tencentIssuer(context.master),
                access: context.access,
                minted: context.metrics.mintCounter("tencent_signature"),
                bodyLimit: context.bodyLimit,
                clock: context.clock
            ).routes
    }
}
