package import GatewayKit
package import ObjectGrants
package import RESTKit
internal import Transport
internal import UploadCore
internal import UploadModel

extension GatewayContext {
    /// How clients reach the object endpoint.
    package var objectURL: ObjectURL {
        let port = objectListener.flatMap { $0.address.unixPath == nil ? $0.address.port : nil }
        return ObjectURL(configured: settings.object.publicURL, gateway: publicURL, port: port)
    }

    /// Issues credentials that can be verified without reading the state.
    package var issuer: CredentialIssuer { CredentialIssuer(master: master) }
}
