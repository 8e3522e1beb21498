internal import GatewayKit
internal import ObjectGateway
internal import SettingsKit
internal import Signing

/// Settings converted for the module.
extension Settings {
    var tencentMode: TencentSignatureIssuer.Mode {
        switch tencentVOD.mode {
        case .relay: .relay
        case .direct: .direct
        }
    }

    var vodEvents: VODEvents.Mode {
        switch tencentVOD.events {
        case .off: .off
        case .pull: .pull
        case .push: .push
        }
    }

    /// The account's key pair in `direct` mode, Sluice's own in `relay` mode.
    func tencentCredentials(_ master: MasterSecret) -> TencentCredentials {
        guard tencentVOD.mode == .direct, let id = tencent.secretID, let key = tencent.secretKey else {
            return .relay(from: master)
        }
        return TencentCredentials(secretID: id, secretKey: key.exposed)
    }

    func tencentIssuer(_ master: MasterSecret) -> TencentSignatureIssuer {
        TencentSignatureIssuer(tencentCredentials(master), mode: tencentMode, skew: limits.clockSkewSeconds)
    }
}
