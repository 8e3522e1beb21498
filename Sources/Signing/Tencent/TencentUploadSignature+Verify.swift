internal import Bytes
internal import Digests

extension TencentUploadSignature {
    /// A parsed signature, not verified yet.
    package struct Parsed: Sendable, Equatable {
        /// The received code, 20 bytes.
        package let code: [UInt8]
        /// The bytes that the code covers.
        package let original: [UInt8]
        /// The decoded pairs of `original` in order, without repeated names.
        package let fields: [Field]

        package subscript(name: String) -> String? { fields.first { $0.name.isExactly(name) }?.value }
    }

    /// An authentic signature that is valid now.
    package struct Verified: Sendable, Equatable {
        package let parameters: Parameters
        /// The code, 20 bytes; identifies a one-time signature.
        package let code: [UInt8]
    }

    /// Parses a signature without verifying its code.
    ///
    /// - Throws: `.notBase64`, `.tooShort`, `.malformed`, `.duplicateParameter`.
    package static func parse(_ signature: String) throws(SignatureFailure) -> Parsed {
        // Encoded again, because a decoder may ignore bits of the last character.
        guard let bytes = Base64.decode(signature), Base64.encode(bytes) == signature else {
            throw .notBase64
        }
        guard bytes.count > codeByteCount else { throw .tooShort }
        let original = Array(bytes.dropFirst(codeByteCount))
        var fields: [Field] = []
        // Not verified yet: a search through all fields for each would take time by the square of their number.
        var names: Set<ExactText> = []
        for pair in original.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false) {
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")),
                let name = FormEncoding.decode(pair[..<equals]),
                let value = FormEncoding.decode(pair[(equals + 1)...]),
                !name.isEmpty
            else { throw .malformed }
            guard names.insert(ExactText(name)).inserted else { throw .duplicateParameter(name) }
            fields.append(Field(name: name, value: value))
        }
        return Parsed(code: Array(bytes.prefix(codeByteCount)), original: original, fields: fields)
    }

    /// Verifies a signature.
    ///
    /// The code is compared in constant time with that of the received bytes, so the signer can choose the order of the
    /// parameters and the encoding of values. Parameters with unknown names are kept in `additional`. The caller must
    /// check whether a one-time signature was used before.
    ///
    /// - Parameters:
    ///   - signature: As sent by the client.
    ///   - secretKey: The key of a secret id; `nil` if there is no such id.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which the signer's clock may be ahead.
    /// - Returns: The verified signature.
    /// - Throws: The first problem found. The code is checked first, so nothing about the values of a forged signature
    ///   is revealed.
    package static func verify(
        _ signature: String,
        secretKey: (String) -> String?,
        at now: Int64,
        skew: Int64 = maximumSkew
    ) throws(SignatureFailure) -> Verified {
        let parsed = try parse(signature)
        guard let secretID = parsed["secretId"] else { throw .missingParameter("secretId") }
        guard let secretKey = secretKey(secretID) else { throw .unknownSecretID }
        guard constantTimeEquals(parsed.code, Key(secretKey).code(for: parsed.original[...])) else { throw .wrongCode }

        let parameters = try Parameters(parsed.fields)
        guard parameters.expireTime > now else { throw .expired }
        let (lifetime, overflow) = parameters.expireTime.subtractingReportingOverflow(parameters.currentTimeStamp)
        // Also by our own clock: the signer could state any beginning.
        guard !overflow, lifetime <= maximumLifetime, parameters.expireTime <= now + maximumLifetime else {
            throw .lifetimeTooLong
        }
        guard parameters.currentTimeStamp <= now + skew else { throw .notYetValid }
        return Verified(parameters: parameters, code: parsed.code)
    }
}

extension TencentUploadSignature.Parameters {
    /// Parameters for which an empty value means that they are not set; some backends always write them.
    private static let optional: Set<String> = [
        "classId", "procedure", "taskPriority", "taskNotifyMode", "sourceContext", "oneTimeValid", "vodSubAppId",
        "sessionContext", "storageRegion",
    ]

    /// Parses the decoded pairs of a signature.
    ///
    /// - Throws: `.missingParameter`, `.notAnInteger`, `.outOfRange`.
    init(_ fields: [TencentUploadSignature.Field]) throws(SignatureFailure) {
        var required: [String: Int64] = [:]
        self.init(secretID: "", currentTimeStamp: 0, expireTime: 0, random: 0)
        for field in fields where !field.value.isEmpty || !Self.optional.contains(field.name) {
            switch field.name {
            case "secretId": secretID = field.value
            case "currentTimeStamp", "expireTime", "random": required[field.name] = try field.integer()
            case "classId": classID = try field.integer()
            case "procedure": procedure = field.value
            case "taskPriority": taskPriority = try field.integer()
            case "taskNotifyMode": taskNotifyMode = field.value
            case "sourceContext": sourceContext = field.value
            case "oneTimeValid":
                switch try field.integer() {
                case 0: oneTimeValid = false
                case 1: oneTimeValid = true
                default: throw .outOfRange(field.name)
                }
            case "vodSubAppId": vodSubAppID = try field.integer()
            case "sessionContext": sessionContext = field.value
            case "storageRegion": storageRegion = field.value
            default: additional.append(field)
            }
        }
        func value(of name: String) throws(SignatureFailure) -> Int64 {
            guard let value = required[name] else { throw .missingParameter(name) }
            return value
        }
        currentTimeStamp = try value(of: "currentTimeStamp")
        expireTime = try value(of: "expireTime")
        guard let random = UInt32(exactly: try value(of: "random")) else { throw .outOfRange("random") }
        self.random = random
    }
}

extension TencentUploadSignature.Field {
    /// The value as an integer: an optional `-` and decimal digits, nothing else.
    ///
    /// - Throws: `.notAnInteger`; `.outOfRange` if it has more than 64 bits.
    fileprivate func integer() throws(SignatureFailure) -> Int64 {
        let digits = value.utf8.first == UInt8(ascii: "-") ? value.utf8.dropFirst() : value.utf8[...]
        guard !digits.isEmpty, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            throw .notAnInteger(name)
        }
        guard let integer = Int64(value) else { throw .outOfRange(name) }
        return integer
    }
}
