internal import Bytes
internal import Digests

/// The client upload signature of Tencent Cloud VOD ("Signature for Upload from Client", documents 266/33922 and 266/9221).
///
///     original  = name=value pairs joined with "&", each value percent-encoded
///     signature = base64( HMAC-SHA1(secret key, original) || original )
///
/// Anyone can read the parameters of a signature, so they must not contain secrets.
package enum TencentUploadSignature {
    /// Maximum time between `currentTimeStamp` and `expireTime`: 90 days, in seconds.
    package static let maximumLifetime: Int64 = 7_776_000

    /// Default of the seconds by which a signer's clock may be ahead.
    package static let maximumSkew: Int64 = 900

    /// Length of the code before the original: HMAC-SHA1.
    static let codeByteCount = 20

    /// The parameters of a signature; optional ones are omitted if `nil`.
    package struct Parameters: Sendable, Equatable {
        package var secretID: String
        /// Unix seconds.
        package var currentTimeStamp: Int64
        /// Unix seconds; at most `maximumLifetime` after `currentTimeStamp`.
        package var expireTime: Int64
        /// Makes signatures of the same second differ.
        package var random: UInt32
        /// Category of the media; default 0.
        package var classID: Int64?
        /// Template of the task flow that starts after the upload.
        package var procedure: String?
        /// -10 to 10, default 0; only with `procedure`.
        package var taskPriority: Int64?
        /// `Finish` (default), `Change` or `None`; only with `procedure`.
        package var taskNotifyMode: String?
        /// Repeated in the event of the finished upload; at most 250 characters.
        package var sourceContext: String?
        /// Whether the signature allows only one upload; default `false`.
        package var oneTimeValid: Bool?
        /// The sub-application.
        package var vodSubAppID: Int64?
        /// Repeated in the events of the task flow; at most 1000 characters.
        package var sessionContext: String?
        /// The storage region, such as `ap-chongqing`.
        package var storageRegion: String?
        /// Parameters that the vendor does not document; they come last.
        package var additional: [Field]

        package init(
            secretID: String,
            currentTimeStamp: Int64,
            expireTime: Int64,
            random: UInt32,
            classID: Int64? = nil,
            procedure: String? = nil,
            taskPriority: Int64? = nil,
            taskNotifyMode: String? = nil,
            sourceContext: String? = nil,
            oneTimeValid: Bool? = nil,
            vodSubAppID: Int64? = nil,
            sessionContext: String? = nil,
            storageRegion: String? = nil,
            additional: [Field] = []
        ) {
            self.secretID = secretID
            self.currentTimeStamp = currentTimeStamp
            self.expireTime = expireTime
            self.random = random
            self.classID = classID
            self.procedure = procedure
            self.taskPriority = taskPriority
            self.taskNotifyMode = taskNotifyMode
            self.sourceContext = sourceContext
            self.oneTimeValid = oneTimeValid
            self.vodSubAppID = vodSubAppID
            self.sessionContext = sessionContext
            self.storageRegion = storageRegion
            self.additional = additional
        }
    }

    /// A name and its decoded value.
    package struct Field: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// A secret key for many signatures.
    package struct Key: Sendable {
        fileprivate let key: HMACKey

        package init(_ secretKey: String) {
            key = HMACKey(.sha1, Array(secretKey.utf8))
        }

        func code(for original: ArraySlice<UInt8>) -> [UInt8] { key.code(for: original) }
    }

    /// Signs `parameters` without validating them; in standard base64 with padding.
    package static func sign(_ parameters: Parameters, secretKey: String) -> String {
        sign(parameters, with: Key(secretKey))
    }

    /// Signs `parameters` without validating them; in standard base64 with padding.
    package static func sign(_ parameters: Parameters, with key: Key) -> String {
        var writer = Writer()
        writer.append("secretId", parameters.secretID)
        writer.append("currentTimeStamp", parameters.currentTimeStamp)
        writer.append("expireTime", parameters.expireTime)
        writer.append("random", Int64(parameters.random))
        writer.append("classId", parameters.classID)
        writer.append("procedure", parameters.procedure)
        writer.append("taskPriority", parameters.taskPriority)
        writer.append("taskNotifyMode", parameters.taskNotifyMode)
        writer.append("sourceContext", parameters.sourceContext)
        writer.append("oneTimeValid", parameters.oneTimeValid.map { $0 ? 1 : 0 })
        writer.append("vodSubAppId", parameters.vodSubAppID)
        writer.append("sessionContext", parameters.sessionContext)
        writer.append("storageRegion", parameters.storageRegion)
        for field in parameters.additional { writer.append(field.name, field.value) }
        return writer.signature(with: key)
    }

    /// Signs an original that is already encoded, byte for byte.
    package static func sign(original: [UInt8], with key: Key) -> String {
        Base64.encode(key.code(for: original[...]) + original)
    }
}

/// A buffer for the code and, after it, the growing original.
private struct Writer {
    private static let start = TencentUploadSignature.codeByteCount
    private var bytes: [UInt8]

    init() {
        bytes = []
        bytes.reserveCapacity(512)
        bytes.append(contentsOf: repeatElement(0, count: Self.start))
    }

    mutating func append(_ name: String, _ value: String?) {
        guard let value else { return }
        appendName(name)
        FormEncoding.append(value, to: &bytes)
    }

    mutating func append(_ name: String, _ value: Int64?) {
        guard let value else { return }
        appendName(name)
        bytes.append(decimal: value)
    }

    private mutating func appendName(_ name: String) {
        if bytes.count > Self.start { bytes.append(UInt8(ascii: "&")) }
        FormEncoding.append(name, to: &bytes)
        bytes.append(UInt8(ascii: "="))
    }

    consuming func signature(with key: TencentUploadSignature.Key) -> String {
        let code = key.code(for: bytes[Self.start...])
        bytes.replaceSubrange(..<Self.start, with: code)
        return Base64.encode(bytes)
    }
}
