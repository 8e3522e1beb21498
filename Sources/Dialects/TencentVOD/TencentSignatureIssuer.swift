package import Foundation
internal import Signing
internal import Synchronization
internal import UploadCore

/// Issues client upload signatures for Tencent Cloud VOD, or for the relay that speaks its protocol.
///
/// What the app wants to have signed is signed as it is. The `subject` of a request is no parameter of the vendor's: in `relay`
/// mode it is signed as the additional parameter `sluiceSubject`, by which the relay knows whose upload it is; in
/// `direct` mode it is left out, because the cloud's documents name no such parameter. An app that wants to see the user in
/// the cloud's events puts the user into `sourceContext`.
package final class TencentSignatureIssuer: Sendable {
    /// Where the bytes go.
    package enum Mode: String, Sendable, CaseIterable {
        /// To Sluice; the credentials are its own.
        case relay
        /// To the cloud; the credentials are those of the account.
        case direct
    }

    /// The name under which `relay` mode signs the subject.
    package static let subjectParameter = "sluiceSubject"

    package let secretID: String
    package let mode: Mode
    private let key: TencentUploadSignature.Key
    private let sequence: Atomic<UInt32>

    package init(_ credentials: TencentCredentials, mode: Mode) {
        secretID = credentials.secretID
        self.mode = mode
        key = TencentUploadSignature.Key(credentials.secretKey)
        sequence = Atomic(.random(in: .min ... .max))
    }

    /// Issues one signature.
    ///
    /// - Parameters:
    ///   - request: What to sign.
    ///   - now: The time of day; fractions of a second are dropped.
    /// - Returns: The signature and the values that were chosen.
    /// - Throws: Everything that is wrong with the request.
    package func issue(_ request: SignatureRequest, at now: Date) throws(InvalidSignatureRequest) -> IssuedSignature {
        // Held to where 90 days can be added.
        let now = min(max(now.unixSeconds, 0), .max / 2)
        let problems = request.problems(at: now, secretID: secretID)
        guard problems.isEmpty else { throw InvalidSignatureRequest(problems: problems) }

        let (currentTimeStamp, expireTime) = request.times(at: now)
        let random = request.random.map { UInt32(truncatingIfNeeded: $0) } ?? nextRandom()
        var parameters = TencentUploadSignature.Parameters(
            secretID: secretID,
            currentTimeStamp: currentTimeStamp,
            expireTime: expireTime,
            random: random,
            classID: request.classID,
            procedure: request.procedure,
            taskPriority: request.taskPriority,
            taskNotifyMode: request.taskNotifyMode,
            sourceContext: request.sourceContext,
            oneTimeValid: request.oneTimeValid,
            vodSubAppID: request.vodSubAppID,
            sessionContext: request.sessionContext,
            storageRegion: request.storageRegion
        )
        if mode == .relay, let subject = request.subject {
            parameters.additional = [.init(name: Self.subjectParameter, value: subject)]
        }
        return IssuedSignature(
            signature: TencentUploadSignature.sign(parameters, with: key),
            secretID: secretID,
            currentTimeStamp: currentTimeStamp,
            expireTime: expireTime,
            random: random
        )
    }

    /// A number that this issuer does not give again for 2^32 signatures.
    ///
    /// So no two signatures of one second are equal, which the cloud would refuse. It guards nothing and may be foreseen.
    private func nextRandom() -> UInt32 {
        // A sequence from a random start, mixed by the final step of MurmurHash3, which maps no two numbers to one.
        var number = sequence.wrappingAdd(1, ordering: .relaxed).newValue
        number = (number ^ number >> 16) &* 0x85EB_CA6B
        number = (number ^ number >> 13) &* 0xC2B2_AE35
        return number ^ number >> 16
    }
}
