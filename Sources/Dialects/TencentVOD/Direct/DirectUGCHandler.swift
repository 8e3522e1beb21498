internal import Bytes
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import MetricsKit
internal import ObjectGateway
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The calls of the upload SDKs in `direct` mode: checked here, answered by Tencent Cloud VOD.
///
/// A call is forwarded as the client sent it, because its signature is that of the account. Nothing is signed here, so
/// the account's secret key never leaves. What is refused here has the same form as in `relay` mode (`UGCHandler`).
struct DirectUGCHandler: UGCResponder {
    /// Posts a body to a path and query of the cloud, only once if so asked, in the turn of a user.
    let cloud:
        @Sendable (_ json: [UInt8], _ target: String, _ isOnce: Bool, _ subject: String?) async throws(CloudForwarder
            .Failure)
            -> CloudForwarder.Reply
    let signatures: VODSignatureCheck
    let revoked: RevocationList
    let uploads: UploadService
    let limiter: RateLimiter
    let cors: CORSPolicy
    let calls: CounterTable
    let report: @Sendable (_ call: String, _ message: String) -> Void
    let clock: any WallClock

    func answer(_ name: String, _ request: Request) async throws(VODError) -> (response: Response, code: String) {
        let reply = try await forward(name, request)
        let label = Self.label(of: reply)
        if reply.status != 200 { report(name, "the response has status \(reply.status)") }
        if label == Self.refusedSignature { report(name, Self.otherKey) }
        return (Response(Status(reply.status), JSONResponse.fields, .bytes(reply.content)), label)
    }

    // MARK: Forwarding

    private func forward(_ name: String, _ request: Request) async throws(VODError) -> CloudForwarder.Reply {
        let json = try await UGCHandler.json(of: request, named: name)
        let fields = try UGCFields(json: json)
        let signer = try await signer(of: fields)
        let isApply = name == "ApplyUploadUGC"
        let admission = isApply ? try await admit(fields, of: signer) : nil
        do throws(CloudForwarder.Failure) {
            // Each Apply uses up a one-time signature; a repetition of the other calls changes nothing.
            let isOnce = isApply && signer.isOneTime
            let reply = try await cloud(json, "\(UGCHandler.path)?Action=\(name)", isOnce, Self.subject(of: signer))
            if let admission, Self.label(of: reply) != "0" { await withdraw(admission) }
            return reply
        } catch {
            if let admission { await withdraw(admission) }
            throw .cloud(error)
        }
    }

    /// Takes back what was counted: without credentials the client cannot upload.
    private func withdraw(_ admission: ElsewhereAdmission) async {
        // If this fails, which is logged, the files count until the period ends.
        try? await uploads.withdraw(admission)
    }

    private func signer(of fields: UGCFields) async throws(VODError) -> VODSigner {
        let signer = try await signatures.verify(try fields.signature(), at: clock.now)
        guard let subject = Self.subject(of: signer) else { return signer }
        if try await core(await revoked.isRevoked(issuer: nil, subject: subject, issuedAt: signer.signedAt)) {
            throw VODError(.invalidSignature, "invalid signature: it was revoked")
        }
        try await core(try RequestMeter.identify(key: nil, subject: subject))
        return signer
    }

    /// The app user, from the parameter in which `TencentSignatureIssuer` signs it for the cloud.
    ///
    /// `nil` if the app's own `sourceContext` cannot be the name of a user, for example because it is too long.
    static func subject(of signer: VODSigner) -> String? {
        signer.parameters.sourceContext.flatMap { SubjectText.isValid($0) ? $0 : nil }
    }

    // MARK: Limits

    /// Checks the files that a call names, and asks the app about them.
    ///
    /// Phones name the files again when they resume an upload. These are checked, too: the vendor does not document how
    /// the cloud handles an unknown session with files, and a made-up session must not bypass the limits. Files that
    /// are named again do not count again.
    ///
    /// - Returns: `nil` if the call names no file.
    private func admit(_ fields: UGCFields, of signer: VODSigner) async throws(VODError) -> ElsewhereAdmission? {
        let isResuming = try fields.text("vodSessionKey") != nil
        if isResuming, try VODNewFile(fields, "video") == nil, try VODNewFile(fields, "cover") == nil { return nil }
        let application = String(signer.parameters.vodSubAppID ?? 0)
        guard limiter.admits(application, of: Self.subject(of: signer), at: clock.now) else {
            throw VODError(.tooManyRequests, "too many uploads begin at once; try again in a second")
        }
        let files = try UGCHandler.request(fields).files.map(\.newUpload)
        // A context of its own, so that a hook does not change the cloud's response.
        let own = RequestContext.current.map { RequestContext($0.info, fields: $0.fields) }
        return try await RequestContext.$current.with(own) { () async throws(VODError) in
            try await core(
                await uploads.admitElsewhere(files, under: Self.grant(of: signer), isCounted: !isResuming)
            )
        }
    }

    private static func grant(of signer: VODSigner) -> Grant {
        var metadata: [String: String] = [:]
        metadata["sourceContext"] = signer.parameters.sourceContext
        metadata["sessionContext"] = signer.parameters.sessionContext
        return Grant(
            id: WritingRight.End.whenCommitted.grantID(for: signer.id),
            subject: subject(of: signer),
            expiresAt: .distantFuture,
            metadata: metadata,
            issuedAt: min(signer.signedAt, signer.verifiedAt)
        )
    }

    // MARK: Counting

    /// Those that the vendor's SDKs know.
    private static let knownCodes: Set<Int64> = [0, 10001, 10004, 10010]
    private static let refusedSignature = "10004"

    /// The signature was right here, by the same key.
    private static let otherKey =
        "Tencent Cloud refuses a signature that is right by tencent.secretId and tencent.secretKey; compare them, and the clock"

    /// The cloud's code, for metrics; of a bounded number of values.
    static func label(of reply: CloudForwarder.Reply) -> String {
        guard reply.status == 200,
            case .integer(let code)? = JSONValue(json: reply.content)?.members?["code"], knownCodes.contains(code)
        else { return "other" }
        return String(code)
    }
}

extension VODRequest {
    fileprivate var files: [VODNewFile] {
        switch self {
        case .media(let video, let cover): [video] + (cover.map { [$0] } ?? [])
        case .cover(let cover, _): [cover]
        }
    }
}
