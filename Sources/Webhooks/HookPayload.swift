internal import UploadModel

/// The content of a hook: the JSON of tusd 2 (package `hooks`, type `HookRequest`), member by member, and `Subject`.
struct HookPayload: Encodable, Equatable {
    struct Event: Encodable, Equatable {
        var upload: FileInfo
        var request: Request

        enum CodingKeys: String, CodingKey {
            case upload = "Upload"
            case request = "HTTPRequest"
        }
    }

    struct FileInfo: Encodable, Equatable {
        var id: String
        /// 0 while it is unknown.
        var size: Int64
        var sizeIsDeferred: Bool
        var offset: Int64
        var metadata: [String: String]
        /// The app user of the upload; not in tusd's payload.
        var subject: String?
        var isPartial: Bool
        var isFinal: Bool
        var partialUploads: [String]?
        var storage: [String: String]?

        enum CodingKeys: String, CodingKey {
            case id = "ID"
            case size = "Size"
            case sizeIsDeferred = "SizeIsDeferred"
            case offset = "Offset"
            case metadata = "MetaData"
            case subject = "Subject"
            case isPartial = "IsPartial"
            case isFinal = "IsFinal"
            case partialUploads = "PartialUploads"
            case storage = "Storage"
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            try container.encode(size, forKey: .size)
            try container.encode(sizeIsDeferred, forKey: .sizeIsDeferred)
            try container.encode(offset, forKey: .offset)
            try container.encode(metadata, forKey: .metadata)
            try container.encode(subject, forKey: .subject)
            try container.encode(isPartial, forKey: .isPartial)
            try container.encode(isFinal, forKey: .isFinal)
            // Null if there are none, as in tusd.
            try container.encode(partialUploads, forKey: .partialUploads)
            try container.encode(storage, forKey: .storage)
        }
    }

    struct Request: Encodable, Equatable {
        var method: String
        var uri: String
        var remoteAddress: String
        var header: [String: [String]]

        enum CodingKeys: String, CodingKey {
            case method = "Method"
            case uri = "URI"
            case remoteAddress = "RemoteAddr"
            case header = "Header"
        }
    }

    var type: String
    var event: Event

    enum CodingKeys: String, CodingKey {
        case type = "Type"
        case event = "Event"
    }

    init(_ name: HookName, _ upload: Upload, _ request: RequestInfo?) {
        type = name.rawValue
        event = Event(upload: FileInfo(upload, isCreated: name != .preCreate), request: Request(request))
    }
}

extension HookPayload.FileInfo {
    init(_ upload: Upload, isCreated: Bool) {
        let parts = upload.concatenation?.parts
        self.init(
            id: isCreated ? upload.alias ?? upload.id.text : "",
            size: upload.length ?? 0,
            sizeIsDeferred: upload.length == nil,
            offset: upload.offset,
            metadata: upload.metadata.values,
            subject: upload.subject,
            isPartial: upload.concatenation?.role == .partial,
            isFinal: parts != nil,
            partialUploads: parts?.map(\.text),
            storage: isCreated ? Self.storage(of: upload) : Self.object(of: upload)
        )
    }

    /// Where an object is going to be, so that the app can keep one from being replaced; `nil` for other uploads.
    private static func object(of upload: Upload) -> [String: String]? {
        guard let object = upload.objectName else { return nil }
        return ["Type": "sluice", "Bucket": object.bucket, "Key": object.key]
    }

    private static func storage(of upload: Upload) -> [String: String] {
        var storage = ["Type": "sluice", "ID": upload.id.text]
        storage["Key"] = upload.key
        return storage
    }
}

extension HookPayload.Request {
    init(_ request: RequestInfo?) {
        guard let request else {
            self.init(method: "", uri: "", remoteAddress: "", header: [:])
            return
        }
        var header: [String: [String]] = [:]
        for field in request.fields { header[Self.canonical(field.name), default: []].append(field.value) }
        self.init(method: request.method, uri: request.uri, remoteAddress: request.remoteAddress, header: header)
    }

    mutating func setHeader(_ name: String, _ values: [String]) {
        header[Self.canonical(name)] = values
    }

    /// A field name in the form of Go's `CanonicalHeaderKey`, which tusd's receivers expect: `Tus-Resumable`.
    private static func canonical(_ name: String) -> String {
        name.split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.prefix(1).uppercased() + $0.dropFirst().lowercased() }.joined(separator: "-")
    }
}
