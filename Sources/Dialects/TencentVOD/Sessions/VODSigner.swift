internal import Bytes
internal import Foundation
internal import Signing
internal import UploadCore
internal import UploadModel

/// The signer of a verified signature or call, and what it allows.
struct VODSigner: Sendable {
    /// The parameters under which `relay` mode signs what the vendor has no name for.
    enum Parameter {
        /// The app user.
        static let subject = TencentSignatureIssuer.subjectParameter
        /// The id of the API key that minted the signature.
        static let key = "sluiceKey"
        static let maximumBytes = "sluiceMaxBytes"
        /// Separated by commas.
        static let contentTypes = "sluiceContentTypes"
        /// Unix seconds: when certificates end that the signature obtains.
        static let end = "sluiceUntil"
    }

    let parameters: TencentUploadSignature.Parameters
    /// Identifies the signature, 40 hexadecimal digits.
    let id: String
    /// For `verify_content`.
    let secretKey: String
    let owner: VODOwner
    /// The id of an API key; `nil` if the app signed with Sluice's own pair.
    let issuer: String?
    let maximumBytes: Int64?
    let contentTypes: [String]
    /// For an app's server, the limits of its key.
    ///
    /// It may continue what any of its users began.
    var serverLimits: KeyLimits?
    /// When the signature was verified.
    var verifiedAt = Date.distantFuture
    /// When what is handed out to the signer must end, with the key behind the signature; `nil` for no such time.
    var lastExpiry: Date?

    /// Whether sessions and media of this owner are the signer's.
    func owns(_ other: VODOwner) -> Bool {
        guard let serverLimits else { return other == owner }
        return other.application == owner.application && serverLimits.allows(subject: other.subject)
    }

    /// Under which name its uploads are counted for the rate limit.
    var rateName: String { "\(issuer ?? "own") \(owner.application)" }

    /// Refuses values that a call may not have either, if a backend signs them itself.
    ///
    /// - Throws: `.invalidSignature`.
    func checkParameters() throws(VODError) {
        let (signed, types) = (parameters, contentTypes)
        let rules: [(name: String, isRight: Bool)] = [
            ("classId", signed.classID ?? 0 >= 0),
            ("procedure", SignatureRequest.has(signed.procedure, atMost: SignatureRequest.procedureLength)),
            ("taskPriority", (-10...10).contains(signed.taskPriority ?? 0)),
            ("taskNotifyMode", signed.taskNotifyMode.map(SignatureRequest.notifyModes.contains) ?? true),
            ("sourceContext", SignatureRequest.has(signed.sourceContext, atMost: SignatureRequest.sourceContextLength)),
            ("vodSubAppId", signed.vodSubAppID ?? 0 >= 0),
            (
                "sessionContext",
                SignatureRequest.has(signed.sessionContext, atMost: SignatureRequest.sessionContextLength)
            ),
            ("storageRegion", signed.storageRegion.map(SignatureRequest.isRegion) ?? true),
            (Parameter.contentTypes, SignatureRequest.areTypes(types)),
        ]
        guard let wrong = rules.first(where: { !$0.isRight }) else { return }
        throw VODSignatureCheck.failure(.outOfRange(wrong.name))
    }

    var isOneTime: Bool { parameters.oneTimeValid == true }
    var signedAt: Date { Date(timeIntervalSince1970: Double(parameters.currentTimeStamp)) }

    /// The grant of an upload that this signature admits.
    ///
    /// - Parameters:
    ///   - fileID: The id of the media that it is for.
    ///   - turn: See `VODSession.turn`.
    ///   - end: When the credentials expire.
    /// - Returns: The grant.
    func grant(for fileID: String, turn: Int? = nil, until end: Date) -> Grant {
        var metadata = ["fileId": fileID]
        metadata["sourceContext"] = parameters.sourceContext
        metadata["sessionContext"] = parameters.sessionContext
        return Grant(
            id: VODSession.right(fileID, turn: turn),
            issuer: issuer,
            subject: owner.subject,
            maximumBytes: maximumBytes,
            contentTypes: contentTypes,
            expiresAt: end,
            metadata: metadata,
            // The signer's clock may be ahead.
            issuedAt: min(signedAt, verifiedAt)
        )
    }
}

/// An API key, the secrets of its pairs, and what notes a use of it.
typealias VODKeyPairs = (key: APIKey, secrets: [String], noteUse: @Sendable () -> Void)

/// Verifies the signatures that apps send with each call.
struct VODSignatureCheck: Sendable {
    /// Sluice's own pairs: the current one, and the previous ones while the master secret is rotated.
    let own: [TencentCredentials]
    let place: VODPlace
    /// The key and the pairs behind a secret id that belongs to an API key.
    let pairs: @Sendable (_ secretID: String) async throws(UploadError) -> VODKeyPairs?
    let revoked: RevocationList
    /// Seconds by which a signer's clock may be ahead.
    var skew = TencentUploadSignature.maximumSkew

    /// Verifies a signature ("Signature for Upload from Client", VOD documentation).
    ///
    /// The call then counts for its key and user.
    ///
    /// - Throws: `VODError`, `.tooManyRequests` if key or user have sent too many calls.
    func verify(_ signature: String, at now: Date) async throws(VODError) -> VODSigner {
        let parsed = try Self.checked { () throws(SignatureFailure) in try TencentUploadSignature.parse(signature) }
        guard let secretID = parsed["secretId"] else { throw Self.failure(.missingParameter("secretId")) }
        var issuer: String?
        var key: APIKey?
        var noteUse: @Sendable () -> Void = {}
        var secrets = own.filter { $0.secretID.isExactly(secretID) }.map(\.secretKey)
        if secrets.isEmpty, let found = try await core(await pairs(secretID)) {
            (secrets, noteUse) = (found.secrets, found.noteUse)
            issuer = found.key.id
            key = found.key
        }
        let (verified, secret) = try verified(signature, by: secrets, at: now)
        noteUse()
        var parameters = verified.parameters
        if parameters.vodSubAppID == 0 { parameters.vodSubAppID = nil }
        let subject = try Self.value(VODSigner.Parameter.subject, in: parameters)
        guard subject.map(SubjectText.isValid) ?? true else {
            throw VODError(.invalidSignature, "invalid signature: the subject \(SubjectText.rule)")
        }
        let application = place.application(parameters.vodSubAppID)
        guard place.has(application) else {
            throw VODError(
                .invalidSignature,
                "invalid signature: this server does not serve the application in vodSubAppId"
            )
        }
        let rights = MintedRights(subject: subject, reach: place.reach(application))
        guard key.map({ $0.refusal(minting: rights) == nil }) ?? true else {
            throw VODError(.invalidSignature, "invalid signature: its key is not for this user or application")
        }
        var maximumBytes: Int64?
        if let text = try Self.value(VODSigner.Parameter.maximumBytes, in: parameters) {
            guard let number = Int64(text), number >= 0 else {
                throw Self.failure(.notAnInteger(VODSigner.Parameter.maximumBytes))
            }
            maximumBytes = number
        }
        var end = key?.end(ofMintedAt: now)
        if let text = try Self.value(VODSigner.Parameter.end, in: parameters) {
            guard let seconds = Int64(text), seconds >= 0 else {
                throw Self.failure(.notAnInteger(VODSigner.Parameter.end))
            }
            end = min(end ?? .distantFuture, Date(timeIntervalSince1970: Double(seconds)))
        }
        let types = try Self.value(VODSigner.Parameter.contentTypes, in: parameters)
        if issuer == nil { issuer = try Self.value(VODSigner.Parameter.key, in: parameters) }
        let signer = VODSigner(
            parameters: parameters,
            id: verified.code.map { String(UInt16($0) | 0x100, radix: 16).dropFirst() }.joined(),
            secretKey: secret,
            owner: VODOwner(application: application, subject: subject),
            issuer: issuer,
            maximumBytes: maximumBytes,
            contentTypes: types.map { $0.split(separator: ",").map(String.init) } ?? [],
            verifiedAt: now,
            lastExpiry: end
        )
        if try await core(await revoked.isRevoked(issuer: signer.issuer, subject: subject, issuedAt: signer.signedAt)) {
            throw VODError(.invalidSignature, "invalid signature: it was revoked")
        }
        try await core(try RequestMeter.identify(key: signer.issuer, subject: subject))
        return signer
    }

    private func verified(
        _ signature: String,
        by secrets: [String],
        at now: Date
    ) throws(VODError) -> (TencentUploadSignature.Verified, secret: String) {
        var last = SignatureFailure.unknownSecretID
        for secret in secrets {
            do throws(SignatureFailure) {
                let verified = try TencentUploadSignature.verify(
                    signature,
                    secretKey: { _ in secret },
                    at: now.unixSeconds,
                    skew: skew
                )
                return (verified, secret)
            } catch {
                last = error
                // Another pair can only help if the code was not made with this one.
                if error != .wrongCode { break }
            }
        }
        throw Self.failure(last)
    }

    private static func value(
        _ name: String,
        in parameters: TencentUploadSignature.Parameters
    ) throws(VODError) -> String? {
        guard let value = parameters.additional.first(where: { $0.name == name })?.value else { return nil }
        guard !value.isEmpty else { throw failure(.outOfRange(name)) }
        return value
    }

    private static func checked<Success>(
        _ body: () throws(SignatureFailure) -> Success
    ) throws(VODError) -> Success {
        do throws(SignatureFailure) {
            return try body()
        } catch {
            throw failure(error)
        }
    }

    static func failure(_ failure: SignatureFailure) -> VODError {
        if failure == .expired { return VODError(.signatureExpired, "signature expired") }
        let reason =
            switch failure {
            case .notBase64: "not standard Base64"
            case .tooShort: "too short"
            case .malformed: "not name=value pairs joined with &"
            case .duplicateParameter(let name): "\(name) occurs twice"
            case .missingParameter(let name): "\(name) is missing"
            // One message for both, so that it does not reveal which ids exist.
            case .unknownSecretID, .wrongCode: "not made with the key of its secretId"
            case .notAnInteger(let name): "\(name) is not an integer"
            case .outOfRange(let name): "\(name) is out of range"
            case .expired, .lifetimeTooLong: "it is valid for more than 90 days"
            case .notYetValid: "its currentTimeStamp is not yet; check the clock of its signer"
            }
        return VODError(.invalidSignature, "invalid signature: \(reason)")
    }
}
