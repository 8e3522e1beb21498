package import Foundation
internal import Signing
internal import Synchronization
internal import UploadModel

/// Issues client upload signatures for Tencent Cloud VOD, or for the relay that speaks its protocol.
///
/// It signs the request unchanged. `subject` is not a parameter of the vendor. In `relay` mode it is signed as the
/// additional parameter `sluiceSubject`, which identifies the uploading user to the relay; so are the API key that minted
/// the signature, its limits and the end of what it obtains (`VODSigner.Parameter`). The cloud does not know these parameters, so in `direct` mode
/// the subject becomes the `sourceContext`, which the cloud repeats in its events, unless the app sets its own
/// `sourceContext`.
package final class TencentSignatureIssuer: Sendable {
    /// Where clients upload to.
    package enum Mode: String, Sendable, CaseIterable {
        /// To Sluice, with its own credentials.
        case relay
        /// To the cloud, with the account's credentials.
        case direct
    }

    /// The name under which `relay` mode signs the subject.
    package static let subjectParameter = "sluiceSubject"

    package let secretID: String
    package let mode: Mode
    private let secret: TencentUploadSignature.Key
    private let sequence: Atomic<UInt32>
    /// Seconds by which a requested beginning may be ahead.
    private let skew: Int64

    package init(
        _ credentials: TencentCredentials,
        mode: Mode,
        skew: Int64 = TencentUploadSignature.maximumSkew
    ) {
        secretID = credentials.secretID
        self.mode = mode
        self.skew = skew
        secret = TencentUploadSignature.Key(credentials.secretKey)
        sequence = Atomic(.random(in: .min ... .max))
    }

    /// Issues one signature.
    ///
    /// - Parameters:
    ///   - request: What to sign.
    ///   - now: The time of day; fractions of a second are dropped.
    ///   - key: The id of the API key that mints it; `nil` for none.
    ///   - end: When the signature must have ended, and in `relay` mode all that it obtains; `nil` for no such time.
    /// - Returns: The signature and the chosen values.
    /// - Throws: Everything that is wrong with the request.
    package func issue(
        _ request: SignatureRequest,
        at now: Date,
        mintedBy key: String? = nil,
        until end: Date? = nil
    ) throws(InvalidSignatureRequest) -> IssuedSignature {
        // Clamped so that 90 days can be added.
        let now = min(max(now.unixSeconds, 0), .max / 2)
        let problems = request.problems(at: now, skew: skew, secretID: secretID, mode: mode)
        guard problems.isEmpty else { throw InvalidSignatureRequest(problems: problems) }

        var (currentTimeStamp, expireTime) = request.times(at: now)
        if let end { expireTime = min(expireTime, max(end.unixSeconds, currentTimeStamp + 1)) }
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
            sourceContext: request.sourceContext ?? (mode == .direct ? request.subject : nil),
            oneTimeValid: request.oneTimeValid,
            vodSubAppID: request.vodSubAppID,
            sessionContext: request.sessionContext,
            storageRegion: request.storageRegion
        )
        if mode == .relay { parameters.additional = Self.additional(request, key, end) }
        let signature = TencentUploadSignature.sign(parameters, with: secret)
        if let problem = request.problem(with: signature) { throw InvalidSignatureRequest(problems: [problem]) }
        return IssuedSignature(
            signature: signature,
            secretID: secretID,
            currentTimeStamp: currentTimeStamp,
            expireTime: expireTime,
            random: random
        )
    }

    private static func additional(
        _ request: SignatureRequest,
        _ key: String?,
        _ end: Date?
    ) -> [TencentUploadSignature.Field] {
        var fields: [TencentUploadSignature.Field] = []
        func append(_ name: String, _ value: String?) {
            if let value { fields.append(.init(name: name, value: value)) }
        }
        append(subjectParameter, request.subject)
        append(VODSigner.Parameter.key, key)
        append(VODSigner.Parameter.maximumBytes, request.maximumBytes.map { String($0) })
        let types = request.contentTypes ?? []
        append(VODSigner.Parameter.contentTypes, types.isEmpty ? nil : types.joined(separator: ","))
        append(VODSigner.Parameter.end, end.map { String(max($0.unixSeconds, 0)) })
        return fields
    }

    /// A number that this issuer does not repeat within 2^32 signatures.
    ///
    /// The cloud refuses two equal signatures within a second. The number is not a secret and may be predictable.
    private func nextRandom() -> UInt32 {
        // A sequence from a random start, mixed with the final step of MurmurHash3, which is a bijection.
        var number = sequence.wrappingAdd(1, ordering: .relaxed).newValue
        number = (number ^ number >> 16) &* 0x85EB_CA6B
        number = (number ^ number >> 13) &* 0xC2B2_AE35
        return number ^ number >> 16
    }
}
