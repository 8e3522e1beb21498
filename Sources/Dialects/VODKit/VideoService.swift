package import CloudCalls
package import GatewayKit
package import ObjectGateway
package import ObjectStore
package import Pulls
package import Webhooks

/// A video service: a module, and what it declares for others.
///
/// `CONTRIBUTING.md` says what a new one needs.
package protocol VideoService: GatewayModule {
    /// Makes media of objects that clients store; `nil` if no object is its media.
    var ownership: (any ObjectOwnership)? { get }
    /// Requests to the gateway's listener that the object endpoint serves.
    var objectClaims: [ObjectClaim] { get }
    /// Its API at the root of the listener, which several services share; `nil` if its calls have paths.
    var api: (any CloudAPI)? { get }

    /// - Parameters:
    ///   - context: What every module receives.
    ///   - tools: What other modules do for video services.
    init(_ context: GatewayContext, _ tools: VideoTools)
}

extension VideoService {
    package var ownership: (any ObjectOwnership)? { nil }
    package var objectClaims: [ObjectClaim] { [] }
    package var api: (any CloudAPI)? { nil }
}

/// What other modules do for video services.
package struct VideoTools: Sendable {
    /// Starts pulls.
    package let starter: PullStarter
    /// Signs events that are posted.
    package let signer: HookSigner

    package init(starter: PullStarter, signer: HookSigner) {
        self.starter = starter
        self.signer = signer
    }
}
