internal import Clouds
package import GatewayKit
internal import HTTPClient
internal import SettingsKit
internal import Signing
internal import Telemetry
internal import UploadCore

/// Passes calls of ApsaraVideo VOD on to Alibaba Cloud, signed by the account's key.
package struct AliyunVODForwarder: Sendable {
    private let cloud: AliyunVODCloud
    private let report: CloudReport

    /// `nil` in `relay` mode.
    package init?(_ context: GatewayContext) {
        guard let cloud = context.settings.aliyunVODCloud(context.clock) else { return nil }
        self.cloud = cloud
        report = CloudReport(context.metrics, context.logger)
    }

    /// Performs an action at the cloud.
    ///
    /// - Parameters:
    ///   - action: Such as `CreateUploadVideo`.
    ///   - parameters: Those of the action, without the common ones.
    ///   - isXML: Whether the response is to be XML instead of JSON.
    /// - Returns: The response, whatever its status.
    /// - Throws: If there is none, or none that can be passed on.
    package func perform(
        _ action: String,
        _ parameters: [(name: String, value: String)],
        isXML: Bool
    ) async throws(CloudForwarder.Failure) -> CloudForwarder.Reply {
        do throws(CloudFailure) {
            let fields = parameters.map { SigningField($0.name, $0.value) }
            let answer = try await cloud.perform(action, fields, isXML: isXML)
            report.called(Vendor.aliyun.cloudName, nil)
            return CloudForwarder.Reply(status: answer.status, content: answer.content)
        } catch {
            report.called(Vendor.aliyun.cloudName, error)
            throw CloudForwarder.Failure(error.message)
        }
    }
}

extension Settings {
    /// ApsaraVideo VOD of Alibaba Cloud; `nil` unless its calls are passed on there.
    fileprivate func aliyunVODCloud(_ clock: any WallClock) -> AliyunVODCloud? {
        guard aliyunVOD.mode == .direct, let id = aliyun.accessKeyID, let secret = aliyun.accessKeySecret else {
            return nil
        }
        let client = HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "cloud",
            maximumTransfers: CloudCaller.maximumCalls,
            // The operator chose the endpoint, so any address is allowed.
            addresses: .any
        )
        let url = aliyunVOD.endpoint ?? "https://vod.\(aliyunVOD.region).aliyuncs.com"
        return AliyunVODCloud(
            caller: CloudCaller(cloud: .aliyun, client: client),
            credentials: SigningCredentials(accessKeyID: id, secretAccessKey: secret.exposed),
            endpoint: Self.endpoint(url),
            signature: aliyunVOD.signature == .v1 ? .parameters : .header,
            clock: clock
        )
    }
}
