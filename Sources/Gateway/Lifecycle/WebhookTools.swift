internal import Signing

/// For operators: what receivers of hooks and callbacks need.
package enum WebhookTools {
    /// The configured or derived secret, with `whsec_`.
    ///
    /// - Throws: `StartFailure` if the master secret can not be read or made.
    package static func secret(_ settings: Settings) throws(StartFailure) -> String {
        try settings.hookSigner(settings.master()).secret
    }

    /// The secret of callbacks, with `whsec_`.
    ///
    /// - Throws: `StartFailure` if the master secret can not be read or made.
    package static func callbackSecret(_ settings: Settings) throws(StartFailure) -> String {
        try settings.callbackSigner(settings.master()).secret
    }
}
