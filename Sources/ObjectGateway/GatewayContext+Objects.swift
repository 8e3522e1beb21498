package import GatewayKit
package import ObjectGrants
package import RESTKit

extension GatewayContext {
    /// How clients reach the object endpoint.
    package var objectURL: ObjectURL {
        ObjectURL(configured: settings.object.publicURL, gateway: publicURL, port: objectPort)
    }

    /// Issues credentials that can be verified without reading the state.
    package var issuer: CredentialIssuer { CredentialIssuer(master: master) }
}
