internal import Bytes
package import Foundation
package import ObjectGrants
package import Signing
package import UploadModel

extension ObjectPresigner {
    /// A form for one upload.
    ///
    /// The grant limits size and media type.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - keys: The key of the object, or a prefix followed by the file name.
    ///   - contentType: A media type, which is put into the form, or a pattern such as `image/*`, for which the page
    ///     adds the field `Content-Type`; `nil` allows any.
    ///   - fields: Additional form fields.
    ///   - grant: The subject and expiry of the upload.
    ///   - now: The start of its validity.
    /// - Returns: The form; the file follows as the field `file`.
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
        switch vendor {
        case .aws:
            let signer = SigV4Signer(credentials: credentials, region: region)
            signature = signer.form(policy: policy, at: now.unixSeconds)
        case .aliyun:
            let signer = OSSSigner(credentials: credentials, scheme: .v4(region: region))
            signature = signer.form(policy: policy, at: now.unixSeconds)
        case .tencent:
            let window = COSWindow(start: now.unixSeconds, end: expiresAt.unixSeconds)
            signature = COSSigner(credentials: credentials).form(policy: policy, window: window)
        }
        let (origin, path) = address.place(bucket, "")
        return PresignedForm(url: origin + path, fields: sent + signature)
    }

    /// Encodes what `PostPolicy` parses.
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
            // Strings and integers always encode.
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
