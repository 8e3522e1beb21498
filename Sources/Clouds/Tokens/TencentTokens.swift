internal import Bytes
package import CloudCredentials
internal import Foundation
internal import HTTPClient
package import Signing
package import UploadCore

/// Tencent Cloud's token service: `GetFederationToken` of version 2018-08-13.
///
/// JSON by POST, signed by TC3-HMAC-SHA256; the answer is JSON with status 200, also where it is an error.
package struct TencentTokens: CloudTokens {
    private let caller: CloudCaller
    private let credentials: SigningCredentials
    private let endpoint: CloudEndpoint
    private let region: String
    private let clock: any WallClock

    /// - Parameters:
    ///   - caller: Sends the requests.
    ///   - credentials: Of the account, or of a user of it.
    ///   - endpoint: Of the token service.
    ///   - region: Such as `ap-guangzhou`.
    ///   - clock: The time of signatures.
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

    /// Above two hours only for keys of users, not of the account itself, which is for the service to judge.
    package var lifetimes: ClosedRange<Int64> { 60...129_600 }

    package func mint(_ request: CloudTokenRequest) async throws(CloudFailure) -> TemporaryCredentials {
        let call = call(request)
        let response = try await caller.post(call)
        let answer = CloudDocument(response.body)
        if response.status != 200 || answer.has("Response", "Error") {
            throw caller.failure(
                call,
                status: response.status,
                code: answer["Response", "Error", "Code"],
                message: answer["Response", "Error", "Message"]
            )
        }
        guard
            let credentials = TemporaryCredentials(
                id: answer["Response", "Credentials", "TmpSecretId"],
                secret: answer["Response", "Credentials", "TmpSecretKey"],
                token: answer["Response", "Credentials", "Token"],
                expiration: answer["Response", "Expiration"]
            )
        else { throw caller.malformed(call) }
        return credentials
    }

    /// The signed request.
    func call(_ request: CloudTokenRequest) -> CloudCaller.Call {
        let name = request.sessionName(maximum: 64, CloudTokenRequest.isLetter)
        let question: [String: JSONValue] = [
            "Name": .string(name),
            // Escaped within the JSON, as the service wants it.
            "Policy": .string(SigningRequest.path(of: request.policy)),
            "DurationSeconds": .integer(request.lifetime),
        ]
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts and numbers can always be encoded.
        let body = [UInt8]((try? encoder.encode(question)) ?? Data())
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
