internal import Bytes
package import CloudCredentials
internal import Foundation
internal import HTTPClient
package import Signing
package import UploadModel

/// Tencent Cloud's token service: `GetFederationToken` of version 2018-08-13.
///
/// A JSON POST, signed with TC3-HMAC-SHA256; the response is JSON with status 200, even for errors.
package struct TencentTokens: CloudTokens {
    private let caller: CloudCaller
    private let credentials: SigningCredentials
    private let endpoint: CloudEndpoint
    private let region: String
    private let clock: any WallClock

    /// - Parameters:
    ///   - caller: Sends the requests.
    ///   - credentials: Of the account, or of one of its users.
    ///   - endpoint: The address of the token service.
    ///   - region: A region such as `ap-guangzhou`.
    ///   - clock: The time for signatures.
    package init(
        caller: CloudCaller,
        credentials: SigningCredentials,
        endpoint: CloudEndpoint,
        region: String,
        clock: any WallClock
    ) {
        self.caller = caller
        self.credentials = credentials
        self.endpoint = endpoint
        self.region = region
        self.clock = clock
    }

    /// More than two hours only with keys of users, not of the account itself; the service enforces that.
    package var lifetimes: ClosedRange<Int64> { 60...129_600 }

    package func mint(_ request: CloudTokenRequest) async throws(CloudFailure) -> TemporaryCredentials {
        let call = call(request)
        let response = try await caller.send(call)
        let document = CloudDocument(response.body)
        if response.status != 200 || document.has("Response", "Error") {
            throw caller.failure(
                call,
                status: response.status,
                code: document["Response", "Error", "Code"],
                message: document["Response", "Error", "Message"]
            )
        }
        guard
            let credentials = TemporaryCredentials(
                id: document["Response", "Credentials", "TmpSecretId"],
                secret: document["Response", "Credentials", "TmpSecretKey"],
                token: document["Response", "Credentials", "Token"],
                expiration: document["Response", "Expiration"]
            )
        else { throw caller.malformed(call) }
        return credentials
    }

    /// The signed request.
    func call(_ request: CloudTokenRequest) -> CloudCaller.Call {
        let name = request.sessionName(maximum: 64, CloudTokenRequest.isLetter)
        let question: JSONMembers = [
            "Name": .string(name),
            // The service requires percent-encoding inside the JSON.
            "Policy": .string(SigningRequest.path(of: request.policy)),
            "DurationSeconds": .integer(request.lifetime),
        ]
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and numbers always encode.
        let body = [UInt8]((try? encoder.encode(JSONValue.object(question))) ?? Data())
        let headers = [
            SigningField("Content-Type", "application/json"), SigningField("X-TC-Action", "GetFederationToken"),
            SigningField("X-TC-Version", "2018-08-13"), SigningField("X-TC-Region", region),
        ]
        let signed = SigningRequest(
            method: "POST",
            host: endpoint.host,
            path: "/",
            headers: headers,
            payload: SigV4Payload(content: body)
        )
        let signer = TC3Signer(credentials: credentials, service: "sts")
        return CloudCaller.Call(
            name: "GetFederationToken",
            url: endpoint.origin + "/",
            headers: headers + signer.sign(signed, at: clock.now.unixSeconds),
            body: body,
            credentials: credentials
        )
    }
}
