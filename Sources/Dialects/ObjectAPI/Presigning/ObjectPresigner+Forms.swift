internal import Bytes
package import Foundation
package import Signing
package import UploadCore

extension ObjectPresigner {
    /// A form for one upload.
    ///
    /// Size and media type are those of the grant.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - keys: The key of the object, or what it begins with; the name of the file follows then.
    ///   - contentType: A media type, which the form gets, or a pattern such as `image/*`, whose type the page adds in the
    ///     field `Content-Type`; `nil` for any.
    ///   - fields: Further ones of the form.
    ///   - grant: Whose uploads it admits, and until when.
    ///   - now: From when it may be sent.
    /// - Returns: The form, which the file follows as the field `file`.
    /// - Throws: If the grant does not fit into a token.
    package func form(
        _ bucket: String,
        _ keys: ObjectGrant.Keys,
        contentType: String? = nil,
        fields: [SigningField] = [],
        under grant: Grant,
        at now: Date
    ) throws(GrantTooLong) -> PresignedForm {
        let credentials = try credentials(for: .postObject, bucket, keys, under: grant)
        var conditions: [Condition] = [.equal("bucket", bucket)]
        var sent: [SigningField] = []
        func add(_ name: String, _ value: String) {
            sent.append(SigningField(name, value))
            conditions.append(.equal(name, value))
        }
        switch keys {
        case .only(let key): add("key", key)
        case .within(let prefix):
            sent.append(SigningField("key", prefix.text + "${filename}"))
            conditions.append(.startsWith("key", prefix.text))
        case .all:
            sent.append(SigningField("key", "${filename}"))
            conditions.append(.startsWith("key", ""))
        }
        if let contentType, !contentType.hasSuffix("/*") {
            add("Content-Type", contentType)
        } else {
            let prefix = contentType == "*/*" ? nil : contentType?.dropLast()
            conditions.append(.startsWith("Content-Type", prefix.map { String($0) } ?? ""))
        }
        for field in fields { add(field.name, field.value) }
        if let most = grant.maximumBytes { conditions.append(.contentLength(0...most)) }
        let lifetime = lifetime(of: grant, at: now)
        let expiresAt = Date(timeIntervalSince1970: Double(now.unixSeconds + lifetime))
        func policy(_ signed: [SigningField]) -> String {
            let all = conditions + signed.map { .equal($0.name, $0.value) }
            return Policy(expiration: expiresAt, conditions: all).base64
        }
        let signature: [SigningField]
        switch dialect {
        case .s3:
            let signer = SigV4Signer(credentials: credentials, region: region)
            signature = signer.form(policy: policy, at: now.unixSeconds)
        case .oss:
            let signer = OSSSigner(credentials: credentials, scheme: .v4(region: region))
            signature = signer.form(policy: policy, at: now.unixSeconds)
        case .cos:
            let window = COSWindow(start: now.unixSeconds, end: expiresAt.unixSeconds)
            signature = COSSigner(credentials: credentials).form(policy: policy, window: window)
        }
        let (origin, path) = address.place(bucket, "")
        return PresignedForm(url: origin + path, fields: sent + signature)
    }

    /// What `PostPolicy` reads.
    private struct Policy: Encodable {
        let expiration: String
        let conditions: [Condition]

        init(expiration: Date, conditions: [Condition]) {
            self.expiration = expiration.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
            self.conditions = conditions
        }

        var base64: String {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            // Texts and whole numbers can always be encoded.
            return Base64.encode((try? encoder.encode(self)) ?? Data())
        }
    }

    private enum Condition: Encodable {
        case equal(String, String)
        case startsWith(String, String)
        /// Bytes.
        case contentLength(ClosedRange<Int64>)

        func encode(to encoder: any Encoder) throws {
            var list = encoder.unkeyedContainer()
            switch self {
            case .equal(let field, let value):
                for text in ["eq", "$" + field, value] { try list.encode(text) }
            case .startsWith(let field, let prefix):
                for text in ["starts-with", "$" + field, prefix] { try list.encode(text) }
            case .contentLength(let range):
                try list.encode("content-length-range")
                try list.encode(range.lowerBound)
                try list.encode(range.upperBound)
            }
        }
    }
}
