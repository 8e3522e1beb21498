internal import Bytes
internal import CloudCalls
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import MetricsKit
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Tencent Cloud VOD API 3.0, version 2018-07-17: what an app's server calls, with Tencent's SDK for servers.
struct VODAPIHandler: CloudAPI {
    private static let version = "2018-07-17"
    static let service = "vod"

    let actions: VODActions
    /// Sluice's own pairs: the current one, and the previous ones while the master secret is rotated.
    let own: [TencentCredentials]
    /// The key and the pairs behind a secret id that belongs to an API key with a scope.
    let pairs: @Sendable (_ secretID: String, Scope) async throws(UploadError) -> VODKeyPairs?
    let nonces: UsedNonces
    /// By call and code.
    let calls: CounterTable
    /// Tells the operator why a call could not be served.
    let report: @Sendable (_ call: String, _ message: String) -> Void
    let clock: any WallClock

    var answersOthers: Bool { true }

    func isMeant(by call: CloudCall) -> Bool {
        TencentCalls.isSignedInHeader(call.head) || call.parameter("SecretId") != nil
            || call.parameter("Version") == Self.version
    }

    func respond(to call: CloudCall, _ request: Request) async -> Response {
        let named = call.head.fields["X-TC-Action"] ?? call.parameter("Action") ?? ""
        let action = VODActions.Action(rawValue: named)
        let name = action?.rawValue ?? "other"
        var response: Response
        var code = "0"
        do throws(VODError) {
            response = try await self.response(to: call, named, action, request)
        } catch {
            if error.callFailure == nil { report(name, error.message) }
            response = self.response(to: error, call)
            code = response.trace.errorCode ?? ""
        }
        // Codes end in the name of a parameter, of which there are many.
        calls[name, String(code.prefix { $0 != "." })].increment()
        response.fields["Cache-Control"] = "no-store"
        response.trace.dialect = .tencent
        return response
    }

    func refuse(_ error: UploadError, _ call: CloudCall) -> Response { response(to: .core(error), call) }

    private func response(to error: VODError, _ call: CloudCall) -> Response {
        let failure =
            error.callFailure ?? TencentCallFailure("InternalError", "The server cannot do this now; try again.")
        var response = TencentCalls.response(failure, requestID: call.id)
        if let wait = error.retryAfter { response.fields["Retry-After"] = wait }
        response.fields["Cache-Control"] = "no-store"
        response.trace.dialect = .tencent
        response.trace.errorCode = failure.code
        return response
    }

    private func response(
        to call: CloudCall,
        _ named: String,
        _ action: VODActions.Action?,
        _ request: Request
    ) async throws(VODError) -> Response {
        if let problem = call.problem { throw VODError("InvalidParameter", problem) }
        let isInHeader = TencentCalls.isSignedInHeader(call.head)
        // First, so that a changed call does not use up the nonce of the right one.
        if !isInHeader {
            do throws(TencentCallFailure) { try TencentCalls.checkMeaning(of: call) } catch { throw .call(error) }
        }
        let caller = try await caller(call, action)
        guard let action else {
            throw VODError("InvalidAction", "The action `\(named.first(scalars: 64))` is not served by this server.")
        }
        let version = isInHeader ? call.head.fields["X-TC-Version"] : call.parameter("Version")
        guard version == Self.version else {
            throw VODError("NoSuchVersion", "The version must be \(Self.version).")
        }
        var parameters =
            isInHeader && call.head.method == .post
            ? try VODParameters(json: call.content)
            : try VODParameters(fields: call.parameters.filter { !Self.common.contains($0.name) })
        if isInHeader { parameters.drop(Self.common) }
        return try await actions.perform(action, &parameters, by: caller, in: VODActions.Context(call.id, request))
    }

    /// Parameters of the signature and of each call.
    private static let common: Set<String> = [
        "Action", "Version", "Region", "Timestamp", "Nonce", "SecretId", "Signature", "SignatureMethod", "Token",
        "Language", "RequestClient",
    ]

    /// Authenticates the caller.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - action: Decides the scope that an API key needs; `nil` for one that is not served.
    /// - Returns: The caller.
    /// - Throws: `VODError`.
    private func caller(_ call: CloudCall, _ action: VODActions.Action?) async throws(VODError) -> VODCaller {
        let claim: TencentCalls.Claim
        do throws(RequestSignatureFailure) {
            claim = try TencentCalls.claim(call, service: Self.service)
        } catch {
            throw .call(TencentCallFailure(error, service: Self.service))
        }
        guard claim.token == nil else {
            throw VODError(
                "AuthFailure.TokenFailure",
                "Temporary credentials cannot call this API; use the pair of an API key."
            )
        }
        var caller = VODCaller(key: nil, secretKey: "")
        var noteUse: @Sendable () -> Void = {}
        var secrets = own.filter { $0.secretID.isExactly(claim.secretID) }.map(\.secretKey)
        if secrets.isEmpty {
            guard let found = try await core(await pairs(claim.secretID, action?.scope ?? .mint)) else {
                throw VODError.call(.unknownKey)
            }
            (caller.key, secrets, noteUse) = found
        }
        caller.secretKey = try Self.verified(claim, by: secrets)
        noteUse()
        try await core(try RequestMeter.identify(key: caller.key?.id, subject: nil))
        if let nonce = claim.nonce {
            let shares = caller.key.map { $0.actsForAll ? .all : UsedNonces.Shares.key($0.id) } ?? .all
            let now = call.time.unixSeconds
            switch nonces.use(
                nonce.text,
                of: claim.secretID,
                for: Self.service,
                within: shares,
                until: nonce.expiry,
                at: now
            ) {
            case .new: break
            case .used: throw VODError.call(.usedNonce)
            case .full: throw VODError.call(.tooManyNonces)
            }
        }
        return caller
    }

    private static func verified(
        _ claim: TencentCalls.Claim,
        by secrets: [String]
    ) throws(VODError) -> String {
        var last = RequestSignatureFailure.wrongSignature
        for secret in secrets {
            do throws(RequestSignatureFailure) {
                try claim.verify(SigningCredentials(accessKeyID: claim.secretID, secretAccessKey: secret))
                return secret
            } catch {
                last = error
            }
        }
        throw .call(TencentCallFailure(last, service: service))
    }
}

/// Who called, authenticated.
struct VODCaller: Sendable {
    /// `nil` for Sluice's own pair, which may do everything.
    var key: APIKey?
    var secretKey: String

    var limits: KeyLimits { key?.limits ?? KeyLimits() }
}

extension TencentCallFailure {
    /// The failure of an upload SDK's request, with the code of API 3.0.
    init(_ failure: VODFailure) {
        let code =
            switch failure.code {
            case .invalidRequest: "InvalidParameterValue"
            case .invalidSignature, .signatureExpired, .signatureUsed: "AuthFailure.SignatureFailure"
            case .invalidSession: "InvalidParameterValue.VodSessionKey"
            case .notAllowed: "LimitExceeded.Quota"
            case .incomplete: "FailedOperation.UploadCosFail"
            case .noMedia: "ResourceNotFound.FileNotExist"
            case .tooManyRequests: "RequestLimitExceeded"
            case .notServed: "ResourceUnavailable"
            }
        self.init(code, failure.message)
    }
}
