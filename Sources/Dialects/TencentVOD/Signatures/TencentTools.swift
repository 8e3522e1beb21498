internal import Foundation
package import GatewayKit
package import SettingsKit
package import Signing

/// Offline version of `/v1/tencent`, for shells and for checks.
package struct TencentTools: Sendable {
    /// `relay` or `direct`.
    package let mode: String
    private let credentials: TencentCredentials
    /// The previous pairs, while the master secret is rotated.
    private let others: [TencentCredentials]
    private let issuer: TencentSignatureIssuer

    /// - Parameters:
    ///   - settings: The mode and the account's key pair.
    ///   - master: The secret from which the `relay` pair is derived.
    package init(_ settings: Settings, _ master: MasterSecret) {
        mode = settings.tencentMode.rawValue
        credentials = settings.tencentCredentials(master)
        others = settings.tencentVOD.mode == .direct ? [] : master.each.dropFirst().map { .relay(from: $0) }
        issuer = TencentSignatureIssuer(credentials, mode: settings.tencentMode)
    }

    /// The id of the pair that signs in the configured mode.
    package var secretID: String { credentials.secretID }

    /// Its secret, for operators who check signatures with other tools.
    package var secretKey: String { credentials.secretKey }

    /// The signature for a request of the form that `POST /v1/tencent/signatures` takes.
    package func sign(json: [UInt8]) throws(StartFailure) -> String {
        do throws(InvalidSignatureRequest) {
            return try issuer.issue(SignatureRequest(json: json), at: Date()).signature
        } catch {
            throw StartFailure(error.message)
        }
    }

    /// The parameters of `signature` if it is valid now.
    package func verify(_ signature: String) throws(StartFailure) -> String {
        do throws(SignatureFailure) {
            let known = [credentials] + others
            let verified = try TencentUploadSignature.verify(
                signature,
                secretKey: { id in known.first { $0.secretID == id }?.secretKey },
                at: Int64(Date().timeIntervalSince1970)
            )
            return Self.lines(verified.parameters)
        } catch {
            throw StartFailure("The signature is not valid: \(Self.explanation(error))")
        }
    }

    /// `name=value`, one parameter per line, with the vendor's names.
    private static func lines(_ parameters: TencentUploadSignature.Parameters) -> String {
        let all: [(String, (any CustomStringConvertible)?)] = [
            ("secretId", parameters.secretID),
            ("currentTimeStamp", parameters.currentTimeStamp),
            ("expireTime", parameters.expireTime),
            ("random", parameters.random),
            ("classId", parameters.classID),
            ("procedure", parameters.procedure),
            ("taskPriority", parameters.taskPriority),
            ("taskNotifyMode", parameters.taskNotifyMode),
            ("sourceContext", parameters.sourceContext),
            ("oneTimeValid", parameters.oneTimeValid.map { $0 ? 1 : 0 }),
            ("vodSubAppId", parameters.vodSubAppID),
            ("sessionContext", parameters.sessionContext),
            ("storageRegion", parameters.storageRegion),
        ]
        let known = all.compactMap { name, value in value.map { "\(name)=\($0)" } }
        return (known + parameters.additional.map { "\($0.name)=\($0.value)" }).joined(separator: "\n")
    }

    private static func explanation(_ failure: SignatureFailure) -> String {
        switch failure {
        case .notBase64: "it is not standard base64 with padding."
        case .tooShort: "it is too short."
        case .malformed: "its content is not name=value pairs joined with &."
        case .duplicateParameter(let name): "it has \(name) more than once."
        case .missingParameter(let name): "it has no \(name)."
        case .unknownSecretID: "its secretId is not the one of this configuration (`sluice credentials tencent`)."
        case .wrongCode: "its code was not made with the secret key of its secretId, or it was changed."
        case .notAnInteger(let name): "its \(name) is not an integer."
        case .outOfRange(let name): "its \(name) is out of range."
        case .expired: "its expireTime has passed."
        case .lifetimeTooLong: "its expireTime is more than 90 days after its currentTimeStamp, or from now."
        case .notYetValid: "its currentTimeStamp is not yet; check both clocks."
        }
    }
}
