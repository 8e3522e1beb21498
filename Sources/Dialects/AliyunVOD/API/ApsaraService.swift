internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGateway
internal import UploadModel

/// What performs actions: this gateway with its own media, or the cloud.
protocol ApsaraService: Sendable {
    /// - Throws: `ApsaraError`.
    func perform(_ order: ApsaraOrder, for request: Request) async throws(ApsaraError) -> ApsaraAnswer

    /// `RefreshUploadVideo`, also for images and attached media.
    func refresh(_ id: String, _ order: ApsaraOrder, for request: Request) async throws(ApsaraError) -> ApsaraAnswer

    /// What an upload SDK reported, without a signature.
    func report(_ parameters: ApsaraParameters, from address: String) async throws(ApsaraError)

    /// What was reported of files, without a signature.
    func progress(_ parameters: ApsaraParameters) async throws(ApsaraError) -> AliyunDocument
}

/// An action that an authenticated caller wants.
struct ApsaraOrder: Sendable {
    let action: ApsaraAction
    let parameters: ApsaraParameters
    let caller: ApsaraCaller
    /// For one of the caller's users.
    var subject: String?
    /// The most bytes that the file may have, besides what its size says.
    var maximumBytes: Int64?
    var wantsXML = false
}

enum ApsaraAnswer: Sendable {
    case document(AliyunDocument)
    /// Of the cloud, passed on as it is.
    case forwarded(CloudForwarder.Reply)
}
