internal import GatewayKit
internal import Logging
internal import MetricsKit
internal import ObjectGateway
internal import SettingsKit
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

extension Settings {
    /// Forwards calls in `direct` mode; `nil` if they are not served there.
    var tencentCloud: CloudForwarder? {
        guard tencentVOD.mode == .direct, let endpoint = tencentVOD.endpoint else { return nil }
        return CloudForwarder(to: endpoint, timeout: tencentVOD.endpointTimeout)
    }
}

extension DirectUGCHandler {
    init(_ context: GatewayContext, _ cloud: CloudForwarder) {
        let logger = context.logger
        self.init(
            cloud: { (json, target, isOnce, subject) throws(CloudForwarder.Failure) in
                try await cloud.post(json, to: target, isOnce: isOnce, for: subject)
            },
            signatures: VODSignatureCheck(
                own: [context.settings.tencentCredentials(context.master)],
                place: VODPlace(context.settings),
                // API keys have no pairs at the cloud.
                pairs: { _ in nil },
                revoked: context.revoked,
                skew: context.settings.limits.clockSkewSeconds
            ),
            revoked: context.revoked,
            uploads: context.services.uploads,
            limiter: RateLimiter(perSecond: context.settings.tencentVOD.appliesPerSecond),
            cors: context.cors,
            calls: context.tencentCalls,
            report: { call, message in
                logger.warning(
                    "a call of a Tencent VOD client was not served",
                    metadata: ["call": "\(call)", "error": "\(message)"]
                )
            },
            clock: context.clock
        )
    }
}
