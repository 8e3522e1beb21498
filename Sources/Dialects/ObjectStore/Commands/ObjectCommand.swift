internal import Bytes
package import HTTPWire
package import Signing
package import UploadModel

/// Everything a request asks for, in one value: this value is authorised, and this value is executed.
///
/// Each vendor's request is decoded into it once (`RequestReader`). Besides it, only the content bytes and what the
/// signature says about them matter.
package struct ObjectCommand: Sendable {
    /// The vendor whose API the request uses, and the response too.
    package let vendor: Vendor
    package let operation: ObjectOperation
    package let content: DeclaredContent
    /// Properties of the object being written, for operations that write one.
    package let write: ObjectWrite
    /// `If-Match` and the other conditions on the object being read.
    package let conditions: HTTPFields
    /// The host by which the client reached the endpoint.
    package let host: String
    /// Whether the response to a deletion has URL-encoded keys.
    package let encodesURL: Bool
    let callback: NamedCallback?

    /// Reads a request.
    ///
    /// - Parameters:
    ///   - request: Untrusted.
    ///   - address: The addressed bucket or object.
    /// - Throws: The error response.
    package init(_ request: RequestReader, for address: EndpointHosts.Address) throws(ObjectError) {
        let operation = try OperationDecoder.operation(request, for: address)
        self.operation = operation
        vendor = request.vendor
        content = try DeclaredContent(request, operation.contentKind)
        write = try ObjectWrite(request, operation)
        conditions = operation.reads ? request.readConditions() : HTTPFields()
        host = request.target.authority ?? request.standard["Host"] ?? ""
        encodesURL =
            if case .deleteObjects = operation { try ObjectParameters(request.target).encodesURL() } else { false }
        callback = try NamedCallback(request)
    }

    /// For commands that consist of their operation only.
    init(_ operation: ObjectOperation, _ vendor: Vendor) {
        self.operation = operation
        self.vendor = vendor
        content = DeclaredContent()
        write = ObjectWrite()
        conditions = HTTPFields()
        host = ""
        encodesURL = false
        callback = nil
    }
}

/// What a request specifies about the object it writes.
package struct ObjectWrite: Sendable, Equatable {
    package var headers = S3ObjectHeaders()
    /// Condition on the existing object; also used for deletions.
    package var condition: ObjectCondition?
    package var forbidsOverwrite = false
    /// Whether a copy takes metadata and tags from the request instead of the source.
    package var replacesMetadata = false
    package var replacesTags = false
    /// The checksum that a multipart upload is to have.
    package var checksum: ObjectChecksum?
    /// Algorithm of the checksum that a copy is to have.
    package var algorithm: ObjectChecksum.Algorithm?
    /// What the object made from parts must match.
    package var expectation: CompletedPart.Expectation?

    package init() {}

    /// - Throws: The error in the request.
    init(_ request: RequestReader, _ operation: ObjectOperation) throws(ObjectError) {
        forbidsOverwrite = request.forbidsOverwrite
        switch operation {
        case .putObject:
            condition = try request.writeCondition()
            headers = try S3ObjectHeaders(request)
        case .copyObject(let name, let source):
            // OSS takes them from the request if the object is copied to itself, whatever the directive says ("CopyObject",
            // OSS documentation).
            let isItself = request.vendor == .aliyun && source.object == name
            replacesMetadata = try Self.replaces("metadata-directive", request) || isItself
            replacesTags = try Self.replaces("tagging-directive", request)
            condition = try request.writeCondition()
            headers = try S3ObjectHeaders(request)
            algorithm = try Self.algorithm(request)
        case .appendObject: headers = try S3ObjectHeaders(request)
        case .createMultipartUpload:
            headers = try S3ObjectHeaders(request)
            checksum = try ObjectChecksum.ofNewMultipartUpload(request)
            // Asked before the parts are sent; where it is to hold until the end, the completion says so, too
            // ("InitiateMultipartUpload", "CompleteMultipartUpload", OSS documentation).
            condition = forbidsOverwrite ? .isAbsent : nil
        case .uploadPartCopy: algorithm = try Self.algorithm(request)
        case .completeMultipartUpload:
            condition = try request.writeCondition()
            expectation = try CompletedPart.Expectation(request)
        case .deleteObject: condition = try request.deleteCondition()
        default: break
        }
    }

    /// Whether a copy takes the value from the request (`true`) or from the source.
    ///
    /// - Throws: `InvalidArgument` for an unknown directive.
    private static func replaces(_ directive: String, _ request: RequestReader) throws(ObjectError) -> Bool {
        guard let text = request[directive] else { return false }
        let profile = request.vendor.profile
        guard let replaces = profile.directives[profile.hasCase ? text : text.uppercasedASCII()] else {
            throw .argument(profile.fields.prefix + directive, text, "The directive must be COPY or REPLACE.")
        }
        return replaces
    }

    private static func algorithm(_ request: RequestReader) throws(ObjectError) -> ObjectChecksum.Algorithm? {
        guard let name = request["checksum-algorithm"] else { return nil }
        guard let algorithm = ObjectChecksum.Algorithm(s3Name: name) else { throw .unknownChecksum }
        return algorithm
    }
}

/// The callback of a request, in Base64, unchanged ("Callback", OSS documentation).
struct NamedCallback: Sendable {
    let text: String
    let variables: String?

    init(_ text: String, variables: String?) {
        self.text = text
        self.variables = variables
    }

    /// - Returns: `nil` if the request has none.
    /// - Throws: `InvalidArgument` if both header and query contain one.
    init?(_ request: RequestReader) throws(ObjectError) {
        guard request.vendor == .aliyun else { return nil }
        let parameters = try ObjectParameters(request.target)
        func text(_ name: String) throws(ObjectError) -> String? {
            let parameter = try parameters.text(name)
            guard let text = request[name] else { return parameter }
            guard parameter == nil else {
                throw .argument(name, nil, "Send either x-oss-\(name) or ?\(name), not both.")
            }
            return text
        }
        guard let callback = try text("callback") else { return nil }
        self.init(callback, variables: try text("callback-var"))
    }
}

extension ObjectOperation {
    /// The kind of the request's content; `nil` if it has none.
    fileprivate var contentKind: DeclaredContent.Kind? {
        switch self {
        case .putObject, .appendObject, .uploadPart: .object
        case .completeMultipartUpload: .completion
        case .createBucket, .putBucketDocument, .deleteObjects, .putObjectTagging: .document
        default: nil
        }
    }

    /// Whether the conditions of the request apply to an object being read.
    fileprivate var reads: Bool {
        switch self {
        case .getObject, .headObject, .getObjectAttributes: true
        default: false
        }
    }
}
