internal import Bytes
internal import HTTPWire
internal import UploadModel

/// The subject of a callback, as far as it is known before the request content is read.
struct CallbackSubject {
    let name: ObjectName
    let operation: ObjectOperation
    let request: Request

    /// The value of a variable.
    ///
    /// - Parameters:
    ///   - variable: A variable of a template.
    ///   - facts: Facts known only once the object is stored.
    ///   - custom: The client's own variables, by name in lower case.
    /// - Returns: The value; empty if the client did not give it.
    func value(of variable: CallbackVariable, _ facts: CallbackFacts, _ custom: ExactNames<String>) -> CallbackValue {
        switch variable {
        case .bucket: .text(name.bucket)
        case .object: .text(name.key)
        case .etag: .text(facts.entityTag)
        case .size: .number(facts.size)
        case .mimeType: .text(facts.mimeType)
        case .crc64: .text(facts.crc64)
        case .contentMD5: .text(facts.contentMD5)
        case .clientIP: .text(request.clientAddress)
        case .requestID: .text(request.id)
        case .operation: .text(operation.name)
        case .imageHeight: facts.imageHeight.map { .number(Int64($0)) } ?? .nothing
        case .imageWidth: facts.imageWidth.map { .number(Int64($0)) } ?? .nothing
        case .imageFormat: .text(facts.imageFormat)
        case .vpcID: .text("")
        case .custom(let name): .text(custom[name] ?? "")
        }
    }
}

/// Facts about an object, known once it is stored.
struct CallbackFacts {
    let entityTag: String
    let size: Int64
    let mimeType: String
    let crc64: String
    /// In Base64; objects stored in parts have none.
    let contentMD5: String
    let imageHeight: Int?
    let imageWidth: Int?
    let imageFormat: String

    /// Every value at its maximum length, even after encoding.
    static let longest = CallbackFacts(
        entityTag: String(repeating: "F", count: 32) + "-10000",
        size: .max,
        mimeType: String(repeating: "\u{1}", count: S3ObjectHeaders.maximumContentType),
        crc64: String(UInt64.max),
        contentMD5: String(repeating: "/", count: 24),
        imageHeight: .max,
        imageWidth: .max,
        imageFormat: "webp"
    )
}

extension CallbackFacts {
    init(_ upload: Upload, _ image: ImageHeader?) {
        let tag = upload.attributes?.entityTag
        self.init(
            entityTag: (tag ?? "").uppercasedASCII(),
            size: upload.offset,
            mimeType: upload.metadata.contentType ?? "application/octet-stream",
            crc64: upload.attributes?.crc64.map { String($0) } ?? "",
            contentMD5: upload.takesParts ? "" : tag.flatMap { Hexadecimal.decode($0) }.map { Base64.encode($0) } ?? "",
            imageHeight: image?.height,
            imageWidth: image?.width,
            imageFormat: image?.format ?? ""
        )
    }
}
