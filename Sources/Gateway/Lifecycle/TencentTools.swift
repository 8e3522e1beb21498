internal import Foundation
internal import Signing
internal import TencentVOD

/// Offline use of what `/v1/tencent` does: for shells and for checks.
package struct TencentTools: Sendable {
    /// `relay` or `direct`.
    package let mode: String
    private let credentials: TencentCredentials
    /// Those that signed before, while the master secret is rotated.
    private let others: [TencentCredentials]
    private let issuer: TencentSignatureIssuer

    /// - Throws: `StartFailure` if the master secret can not be read or made.
    package init(_ settings: Settings) throws(StartFailure) {
        let master = try settings.master()
        mode = settings.tencentMode.rawValue
        credentials = settings.tencentCredentials(master)
        others = settings.tencent.mode == .direct ? [] : master.each.dropFirst().map { .relay(from: $0) }
        issuer = TencentSignatureIssuer(credentials, mode: settings.tencentMode)
    }

    /// Names the pair that signs in the configured mode.
    package var secretID: String { credentials.secretID }

    /// Its secret, for an operator who checks signatures elsewhere.
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
            return "\(verified.parameters)"
        } catch {
            throw StartFailure("\(error)")
        }
    }
}
