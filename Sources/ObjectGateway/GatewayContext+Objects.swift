package import GatewayKit
package import ObjectGrants
package import RESTKit
internal import UploadCore
internal import UploadModel

extension GatewayContext {
    /// How clients reach the object endpoint.
    package var objectURL: ObjectURL {
        ObjectURL(configured: settings.object.publicURL, gateway: publicURL, port: objectPort)
    }

    /// Issues credentials that can be verified without reading the state.
    package var issuer: CredentialIssuer { CredentialIssuer(master: master) }

    /// Finds the API keys behind key pairs.
    package func keyPairCache() -> KeyPairCache {
        KeyPairCache(state: state, master: master, clock: clock, uses: authenticator.uses)
    }
}
