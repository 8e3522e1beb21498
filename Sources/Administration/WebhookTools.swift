package import GatewayKit
internal import ObjectGateway
package import SettingsKit
internal import Signing
internal import Stores
internal import Webhooks

/// For operators: the secrets that receivers of hooks and callbacks need.
package enum WebhookTools {
    /// The configured or derived secret, with `whsec_`.
    ///
    /// - Throws: `StartFailure` if the master secret cannot be read or made.
    package static func secret(_ settings: Settings) throws(StartFailure) -> String {
        try settings.hookSigner(settings.master()).secret
    }

    /// The secret of callbacks, with `whsec_`.
    ///
    /// - Throws: `StartFailure` if the master secret cannot be read or made.
    package static func callbackSecret(_ settings: Settings) throws(StartFailure) -> String {
        try settings.callbackSigner(settings.master()).secret
    }
}
