internal import Bytes
package import CloudCredentials
internal import Foundation
internal import HTTPClient
package import Signing
package import UploadModel
internal import XMLText

/// AWS's token service: `AssumeRole` of a role, or without one `GetFederationToken` ("AWS Security Token Service API Reference").
///
/// A form by POST, signed by Signature Version 4 for the service `sts`; the response is XML.
package struct AWSTokens: CloudTokens {
    package struct Role: Sendable, Equatable {
        /// `arn:aws:iam::123456789012:role/uploader`.
        package let name: String
        /// The external id that the role's trust policy may require.
        package let externalID: String?

        package init(name: String, externalID: String?) {
            self.name = name
            self.externalID = externalID
        }
    }

    private let caller: CloudCaller
    private let credentials: any AWSCredentialsProvider
    private let endpoint: CloudEndpoint
    private let region: String
    private let role: Role?
    private let clock: any WallClock

    /// - Parameters:
    ///   - caller: Sends the requests.
    ///   - credentials: Of a user who may assume the role, or of the user who federates.
    ///   - endpoint: The address of the token service.
    ///   - region: The region to sign for.
    ///   - role: `nil` for `GetFederationToken`.
    ///   - clock: The time for signatures.
    package init(
        caller: CloudCaller,
        credentials: any AWSCredentialsProvider,
        endpoint: CloudEndpoint,
        region: String,
        role: Role?,
        clock: any WallClock
    ) {
        self.caller = caller
        self.credentials = credentials
        self.endpoint = endpoint
        self.region = region
        self.role = role
        self.clock = clock
    }

    private var action: String { role == nil ? "GetFederationToken" : "AssumeRole" }

    package var lifetimes: ClosedRange<Int64> { 900...(role == nil ? 129_600 : 43_200) }

    package func mint(_ request: CloudTokenRequest) async throws(CloudFailure) -> TemporaryCredentials {
        let held = try await credentials.held(for: caller.cloud)
        let call = call(request, signedWith: held)
        let response = try await caller.send(call)
        let document = XMLNode.parse(response.body)
        guard response.status == 200 else {
            let failure = caller.failure(call, status: response.status, document)
            // Drops the cached credentials, so that replaced ones are fetched.
            if failure.code == "ExpiredToken" || failure.code == "InvalidClientTokenId" {
                await credentials.invalidate()
            }
            throw failure
        }
        guard let found = document.flatMap({ TemporaryCredentials($0, of: action) }) else {
            throw caller.malformed(call)
        }
        return found
    }

    /// The signed request.
    func call(_ request: CloudTokenRequest, signedWith held: SigningCredentials) -> CloudCaller.Call {
        func isAllowed(_ byte: UInt8) -> Bool {
            CloudTokenRequest.isLetterOrDigit(byte) || "_+=,.@-".utf8.contains(byte)
        }
        var form = [SigningField("Action", action), SigningField("Version", "2011-06-15")]
        if let role {
            form += [
                SigningField("RoleArn", role.name),
                SigningField("RoleSessionName", request.sessionName(maximum: 64, isAllowed)),
            ]
            if let id = role.externalID { form.append(SigningField("ExternalId", id)) }
        } else {
            form.append(SigningField("Name", request.sessionName(maximum: 32, isAllowed)))
        }
        form += [
            SigningField("DurationSeconds", String(request.lifetime)), SigningField("Policy", request.policy),
        ]
        let body = Array(SigningRequest.query(of: form).utf8)
        let headers = [SigningField("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")]
        let signer = SigV4Signer(credentials: held, region: region, service: "sts", rules: .general)
        let signed = SigningRequest(
            method: "POST",
            host: endpoint.host,
            path: "/",
            headers: headers,
            payload: SigV4Payload(content: body)
        )
        return CloudCaller.Call(
            name: action,
            url: endpoint.origin + "/",
            headers: headers + signer.sign(signed, at: clock.now.unixSeconds).fields,
            body: body,
            credentials: held
        )
    }
}

extension AWSCredentialsProvider {
    /// The credentials for requests to a cloud.
    package func held(for cloud: String) async throws(CloudFailure) -> SigningCredentials {
        do throws(CredentialsError) {
            return try await credentials()
        } catch {
            throw CloudFailure(
                .unavailable,
                "there are no credentials for \(cloud) now; the server's log says why",
                cause: error.message
            )
        }
    }
}
