internal import Bytes
internal import Foundation
internal import HTTPClient
package import Signing
package import UploadModel
internal import XMLText

/// ApsaraVideo VOD of Alibaba Cloud, version 2017-03-21.
///
/// A POST with its parameters in the query, as the vendor's SDKs send it.
package struct AliyunVODCloud: Sendable {
    /// How requests are signed.
    package enum Signature: Sendable {
        /// In the header (ACS3-HMAC-SHA256).
        case header
        /// Among the parameters (version 1.0, HMAC-SHA1), for endpoints that know nothing else.
        case parameters
    }

    /// The cloud's response, as it is.
    package struct Answer: Sendable, Equatable {
        package let status: Int
        package let content: [UInt8]
    }

    private let caller: CloudCaller
    private let credentials: SigningCredentials
    private let endpoint: CloudEndpoint
    private let signature: Signature
    private let clock: any WallClock

    /// - Parameters:
    ///   - caller: Sends the requests.
    ///   - credentials: Of a RAM user who may use ApsaraVideo VOD.
    ///   - endpoint: The address of the service.
    ///   - signature: How requests are signed.
    ///   - clock: The time for signatures.
    package init(
        caller: CloudCaller,
        credentials: SigningCredentials,
        endpoint: CloudEndpoint,
        signature: Signature = .header,
        clock: any WallClock
    ) {
        self.caller = caller
        self.credentials = credentials
        self.endpoint = endpoint
        self.signature = signature
        self.clock = clock
    }

    /// Performs an action.
    ///
    /// - Parameters:
    ///   - action: Such as `CreateUploadVideo`.
    ///   - parameters: Those of the action, without the common ones.
    ///   - isXML: Whether the response is to be XML instead of JSON.
    /// - Returns: The response, whatever its status.
    /// - Throws: `.unavailable`, `.malformed`; `.refused` if the cloud does not take the account's key or signature.
    package func perform(
        _ action: String,
        _ parameters: [SigningField],
        isXML: Bool
    ) async throws(CloudFailure) -> Answer {
        let call = request(action, parameters, isXML: isXML)
        let response = try await caller.send(call)
        guard (200..<600).contains(response.status), ![204, 205, 304].contains(response.status) else {
            throw caller.malformed(call)
        }
        if response.status >= 400, let failure = failure(call, response, isXML: isXML) { throw failure }
        return Answer(
            status: response.status,
            content: response.body
        )
    }

    /// The failure if the cloud refuses the gateway and not what its caller asked for.
    ///
    /// Its text quotes what was signed by the account's key, which is nothing to the caller.
    private func failure(_ call: CloudCaller.Call, _ response: HTTPClientResponse, isXML: Bool) -> CloudFailure? {
        let code = isXML ? XMLNode.parse(response.body)?["Code"] : CloudDocument(response.body)["Code"]
        guard let code, CloudFailure.isAboutAccount(code) else { return nil }
        let failure = caller.failure(call, status: response.status, code: code, message: nil)
        return failure.kind == .refused ? failure : nil
    }

    /// The signed request for an action.
    func request(_ action: String, _ parameters: [SigningField], isXML: Bool) -> CloudCaller.Call {
        let query = parameters + [SigningField("Format", isXML ? "XML" : "JSON")]
        if signature == .parameters {
            let signed = AliyunRPCSignature.sign(
                SigningRequest(
                    method: "POST",
                    host: endpoint.host,
                    path: "/",
                    query: query + [SigningField("Action", action), SigningField("Version", Self.version)]
                ),
                credentials: credentials,
                nonce: UUID().uuidString,
                at: clock.now.unixSeconds
            )
            return call(action, signed, [SigningField("accept", isXML ? "text/xml" : "application/json")])
        }
        let headers = [
            SigningField("accept", isXML ? "text/xml" : "application/json"), SigningField("x-acs-action", action),
            SigningField("x-acs-version", Self.version),
        ]
        let signed = SigningRequest(
            method: "POST",
            host: endpoint.host,
            path: "/",
            query: query,
            headers: headers,
            payload: .empty
        )
        let fields = ACS3Signature.sign(
            signed,
            credentials: credentials,
            nonce: UUID().uuidString,
            at: clock.now.unixSeconds
        )
        return call(action, query, headers + fields)
    }

    private func call(_ action: String, _ query: [SigningField], _ headers: [SigningField]) -> CloudCaller.Call {
        CloudCaller.Call(
            name: action,
            url: "\(endpoint.origin)/?\(SigningRequest.query(of: query))",
            headers: headers,
            credentials: credentials,
            // The nonce is valid only once.
            isOnce: true
        )
    }

    private static let version = "2017-03-21"
}
