internal import Bytes
internal import RESTKit
internal import Signing
internal import UploadModel

extension SignatureRequest {
    /// All invalid values, in field order; empty if a signature can be issued.
    ///
    /// - Parameters:
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which `currentTimeStamp` may be ahead.
    ///   - secretID: The id of the signing key pair.
    ///   - mode: The mode of the issuer.
    /// - Returns: At most two problems per field.
    func problems(
        at now: Int64,
        skew: Int64,
        secretID: String,
        mode: TencentSignatureIssuer.Mode
    ) -> [FieldProblem] {
        var problems: [FieldProblem] = []
        func require(_ isRight: Bool, _ field: SignatureField, _ message: String? = nil) {
            if !isRight { problems.append(field.problem(message)) }
        }

        require(self.secretID.map { $0.isExactly(secretID) } ?? true, .secretId)
        require((currentTimeStamp ?? 0) >= 0, .currentTimeStamp)
        appendExpiryProblem(at: now, skew, to: &problems)
        require(random.map { UInt32(exactly: $0) != nil } ?? true, .random)
        require(procedure.map { !$0.isEmpty } ?? true, .procedure)
        require(Self.has(procedure, atMost: Self.procedureLength), .procedure)
        require((-10...10).contains(taskPriority ?? 0), .taskPriority)
        require(taskPriority == nil || procedure != nil, .taskPriority, Self.withoutProcedure)
        require(Self.notifyModes.contains(taskNotifyMode ?? "Finish"), .taskNotifyMode)
        require(taskNotifyMode == nil || procedure != nil, .taskNotifyMode, Self.withoutProcedure)
        require(Self.has(sourceContext, atMost: Self.sourceContextLength), .sourceContext)
        require((vodSubAppID ?? 0) >= 0, .vodSubAppId)
        require(Self.has(sessionContext, atMost: Self.sessionContextLength), .sessionContext)
        require(storageRegion.map(Self.isRegion) ?? true, .storageRegion)
        require((1...TencentUploadSignature.maximumLifetime).contains(expiresIn ?? 1), .expiresIn)
        require(expiresIn == nil || expireTime == nil, .expiresIn, "must be left out where expireTime is given")
        require(subject.map(SubjectText.isValid) ?? true, .subject)
        require(
            mode == .relay || sourceContext != nil || Self.has(subject, atMost: 250),
            .subject,
            "must have at most 250 characters in direct mode, where it becomes the sourceContext"
        )
        let inDirectMode = "must be left out in direct mode, where the cloud would not know it"
        require((maximumBytes ?? 1) >= 1, .maxBytes)
        require(mode == .relay || maximumBytes == nil, .maxBytes, inDirectMode)
        require(Self.areTypes(contentTypes ?? []), .contentTypes)
        require(mode == .relay || contentTypes == nil, .contentTypes, inDirectMode)
        return problems
    }

    /// What a key with limits may not choose in `direct` mode, where the account's key signs it.
    ///
    /// A procedure spends the account's money, regions and applications are those of others, and the cloud and this gateway take the
    /// `sourceContext` for the user.
    func problems(ofKeyWithLimits settings: TencentVODSettings) -> [FieldProblem] {
        var problems: [FieldProblem] = []
        func require(_ isRight: Bool, _ field: SignatureField, _ message: String) {
            if !isRight { problems.append(field.problem(message + " for a key with limits")) }
        }
        let isKnown = procedure.map { name in settings.procedures.contains { $0.isExactly(name) } } ?? true
        require(isKnown, .procedure, "must be one of tencent.procedures")
        require(sourceContext == nil, .sourceContext, "is the subject, and must be left out")
        let application = vodSubAppID ?? 0
        let isListed = application == 0 || settings.subApplications.contains { Int64($0) == application }
        require(isListed, .vodSubAppId, "must be one of tencent.subApplications")
        require(storageRegion == nil, .storageRegion, "must be left out")
        return problems
    }

    /// The two times to sign; call only for a request without problems.
    func times(at now: Int64) -> (currentTimeStamp: Int64, expireTime: Int64) {
        let start = currentTimeStamp ?? now
        return (start, expireTime ?? start + (expiresIn ?? Self.defaultLifetime))
    }

    /// Checks the expiry of the signature.
    ///
    /// Past times are signed as requested, which makes signatures reproducible. Later ones than now would be verified
    /// nowhere, and a revocation would come before them. All must end within 90 days from now, otherwise they would
    /// circumvent the vendor's limit.
    private func appendExpiryProblem(at now: Int64, _ skew: Int64, to problems: inout [FieldProblem]) {
        let longest = TencentUploadSignature.maximumLifetime
        let latest = now + longest
        let start = currentTimeStamp ?? now
        let tooLate = "must let the signature end within 7776000 seconds (90 days) from now"
        guard start <= now + skew else {
            problems.append(
                SignatureField.currentTimeStamp.problem(
                    "must be at most \(skew) seconds (limits.clockSkew) from now, and let the signature end within 90 days"
                )
            )
            return
        }
        guard start >= 0 else { return }
        if let expireTime {
            if expireTime <= start || expireTime - start > longest {
                problems.append(SignatureField.expireTime.problem())
            } else if expireTime > latest {
                problems.append(SignatureField.expireTime.problem(tooLate))
            }
        } else if let expiresIn {
            if (1...longest).contains(expiresIn), start + expiresIn > latest {
                problems.append(SignatureField.expiresIn.problem(tooLate))
            }
        } else if start + Self.defaultLifetime > latest {
            problems.append(SignatureField.currentTimeStamp.problem(tooLate))
        }
    }

    private static let withoutProcedure = "is allowed only together with procedure"

    static let notifyModes: Set<String> = ["Finish", "Change", "None"]
    /// In characters.
    static let procedureLength = 1024
    /// In characters.
    static let sourceContextLength = 250
    /// In characters.
    static let sessionContextLength = 1000

    static func areTypes(_ types: [String]) -> Bool {
        types.count <= 20 && types.allSatisfy(MediaTypeText.isPattern)
    }

    /// What is wrong with a signature that no upload accepts, under the field that makes it longest.
    func problem(with signature: String) -> FieldProblem? {
        guard signature.utf8.count > UGCFields.signatureLength else { return nil }
        let texts: [(SignatureField, Int)] = [
            (.procedure, procedure?.utf8.count ?? 0), (.sourceContext, sourceContext?.utf8.count ?? 0),
            (.sessionContext, sessionContext?.utf8.count ?? 0),
            (.contentTypes, contentTypes?.reduce(0) { $0 + $1.utf8.count } ?? 0),
        ]
        return texts.max { $0.1 < $1.1 }?.0.problem(
            "makes the signature longer than \(UGCFields.signatureLength) characters, with the other fields"
        )
    }

    static func has(_ text: String?, atMost limit: Int) -> Bool {
        text?.hasScalars(atMost: limit) ?? true
    }

    static func isRegion(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}
