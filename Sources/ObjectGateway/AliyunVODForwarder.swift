internal import Clouds
package import GatewayKit
internal import HTTPClient
internal import SettingsKit
internal import Signing
internal import Telemetry
internal import UploadModel

/// Passes calls of ApsaraVideo VOD on to Alibaba Cloud, signed by the account's key.
package struct AliyunVODForwarder: Sendable {
    private let cloud: AliyunVODCloud
    private let report: CloudReport
    private let turns = UserTurns(CloudCaller.maximumCalls)
    /// For a turn.
    private static let longestWait = Duration.seconds(10)

    /// `nil` without the account's key.
    ///
    /// - Parameters:
    ///   - context: Has the account, and counts calls.
    ///   - endpoint: URL of ApsaraVideo VOD.
    ///   - isSignedInParameters: Whether calls are signed by version 1, which is in their parameters.
    package init?(_ context: GatewayContext, to endpoint: String, isSignedInParameters: Bool) {
        let account = context.settings.aliyun
        guard let id = account.accessKeyID, let secret = account.accessKeySecret else { return nil }
        let client = HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "cloud",
            maximumTransfers: CloudCaller.maximumCalls,
            // The operator chose the endpoint, so any address is allowed.
            addresses: .any
        )
        cloud = AliyunVODCloud(
            caller: CloudCaller(cloud: .aliyun, client: client),
            credentials: SigningCredentials(accessKeyID: id, secretAccessKey: secret.exposed),
            endpoint: Settings.endpoint(endpoint),
            signature: isSignedInParameters ? .parameters : .header,
            clock: context.clock
        )
        report = CloudReport(context.metrics, context.logger)
    }

    /// Performs an action at the cloud.
    ///
    /// - Parameters:
    ///   - action: Such as `CreateUploadVideo`.
    ///   - parameters: Those of the action, without the common ones.
    ///   - isXML: Whether the response is to be XML instead of JSON.
    ///   - subject: Who calls; one user has at most half of the calls at once.
    /// - Returns: The response, whatever its status.
    /// - Throws: If there is none, or none that can be passed on.
    package func perform(
        _ action: String,
        _ parameters: [(name: String, value: String)],
        isXML: Bool,
        for subject: String?
    ) async throws(CloudForwarder.Failure) -> CloudForwarder.Reply {
        let fields = parameters.map { SigningField($0.name, $0.value) }
        let call = { [cloud] () async -> Result<AliyunVODCloud.Answer, CloudFailure> in
            do throws(CloudFailure) { return .success(try await cloud.perform(action, fields, isXML: isXML)) } catch {
                return .failure(error)
            }
        }
        guard let result = await turns.run(for: subject, within: Self.longestWait, call) else {
            throw CloudForwarder.Failure("too many calls are under way")
        }
        do throws(CloudFailure) {
            let answer = try result.get()
            report.called(Vendor.aliyun.cloudName, nil)
            return CloudForwarder.Reply(status: answer.status, content: answer.content)
        } catch {
            report.called(Vendor.aliyun.cloudName, error)
            throw CloudForwarder.Failure(error.message, isRefusal: error.kind == .refused)
        }
    }
}
