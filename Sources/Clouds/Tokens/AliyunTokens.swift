package import CloudCredentials
internal import Foundation
internal import HTTPClient
package import Signing
package import UploadModel

/// Alibaba Cloud's token service: `AssumeRole` of version 2015-04-01.
///
/// A POST with its parameters in the query, as the vendor's SDKs send it, signed in the header (ACS3-HMAC-SHA256); the
/// response is JSON.
package struct AliyunTokens: CloudTokens {
    private let caller: CloudCaller
    private let credentials: SigningCredentials
    private let endpoint: CloudEndpoint
    private let role: String
    private let clock: any WallClock

    /// - Parameters:
    ///   - caller: Sends the requests.
    ///   - credentials: Of a RAM user who may assume the role.
    ///   - endpoint: The address of the token service.
    ///   - role: `acs:ram::1234567890123456:role/uploader`.
    ///   - clock: The time for signatures.
    package init(
        caller: CloudCaller,
        credentials: SigningCredentials,
        endpoint: CloudEndpoint,
        role: String,
        clock: any WallClock
    ) {
        self.caller = caller
        self.credentials = credentials
        self.endpoint = endpoint
        self.role = role
        self.clock = clock
    }

    package var lifetimes: ClosedRange<Int64> { 900...43_200 }

    package func mint(_ request: CloudTokenRequest) async throws(CloudFailure) -> TemporaryCredentials {
        let call = call(request, nonce: UUID().uuidString)
        let response = try await caller.send(call)
        let document = CloudDocument(response.body)
        guard response.status == 200 else {
            throw caller.failure(call, status: response.status, code: document["Code"], message: document["Message"])
        }
        guard
            let credentials = TemporaryCredentials(
                id: document["Credentials", "AccessKeyId"],
                secret: document["Credentials", "AccessKeySecret"],
                token: document["Credentials", "SecurityToken"],
                expiration: document["Credentials", "Expiration"]
            )
        else { throw caller.malformed(call) }
        return credentials
    }

    /// The signed request.
    func call(_ request: CloudTokenRequest, nonce: String) -> CloudCaller.Call {
        // The documentation of 2021 allows 32 characters, later ones allow more.
        let name = request.sessionName(maximum: 32) {
            CloudTokenRequest.isLetterOrDigit($0) || ".@-_".utf8.contains($0)
        }
        let query = [
            SigningField("RoleArn", role), SigningField("RoleSessionName", name),
            SigningField("DurationSeconds", String(request.lifetime)), SigningField("Policy", request.policy),
        ]
        let headers = [
            SigningField("accept", "application/json"), SigningField("x-acs-action", "AssumeRole"),
            SigningField("x-acs-version", "2015-04-01"),
        ]
        let signed = SigningRequest(
            method: "POST",
            host: endpoint.host,
            path: "/",
            query: query,
            headers: headers,
            payload: .empty
        )
        let fields = ACS3Signature.sign(signed, credentials: credentials, nonce: nonce, at: clock.now.unixSeconds)
        return CloudCaller.Call(
            name: "AssumeRole",
            url: "\(endpoint.origin)/?\(SigningRequest.query(of: query))",
            headers: headers + fields,
            credentials: credentials,
            // The nonce is valid only once.
            isOnce: true
        )
    }
}
