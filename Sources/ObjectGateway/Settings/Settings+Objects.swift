package import Callbacks
internal import GatewayKit
package import HTTPWire
internal import ObjectGrants
package import ObjectStore
package import SettingsKit
package import Signing
package import UploadModel

/// Settings converted for the module.
extension Settings {
    /// `nil` if clients must not name callbacks.
    package func callbackClient(
        _ master: MasterSecret,
        _ clock: any WallClock,
        onEnd: @escaping @Sendable (_ hasResponse: Bool) -> Void
    ) -> CallbackClient? {
        let hosts = object.callbackHosts.compactMap { CallbackHost($0) }
        return hosts.isEmpty ? nil : CallbackClient(hosts, signer: callbackSigner(master), clock: clock, onEnd: onEnd)
    }

    /// Signs callbacks with a separate key: clients choose their content, which could imitate a hook.
    package func callbackSigner(_ master: MasterSecret) -> WebhookSigner {
        WebhookSigner(key: master.key(for: "callbacks v1"))
    }

    /// What anyone can read on the object endpoint.
    package var publicRead: PublicRead {
        PublicRead(
            object.publicRead.compactMap { PublicRead.Rule($0) },
            maximumAge: object.publicMaximumAge.components.seconds
        )
    }
}

extension BucketCORS {
    /// Rules for buckets without their own: the origins that may use the gateway.
    package init?(following policy: CORSPolicy) {
        guard policy.isEnabled else { return nil }
        switch policy.origins {
        case .any: self.init(origins: ["*"])
        case .only(let list): self.init(origins: list.sorted())
        }
    }
}
