internal import Bytes
internal import HTTPWire
internal import Signing
internal import UploadCore
internal import UploadModel

/// The differences between the vendors' stores, as values; see the files of the vendors.
///
/// A class, so that access copies nothing.
final class VendorProfile: Sendable {
    /// How the source of a copy is written.
    enum CopySourceForm: Sendable {
        /// `/bucket/key`.
        case path
        /// As `path`, with `+` for a space: the Go SDK of OSS escapes it as in forms.
        ///
        /// All SDKs of OSS escape `+` itself.
        case formEncodedPath
        /// `bucket.host/key`.
        case host
    }

    /// How ranges are handled that HTTP would ignore, or multiple ranges.
    enum RangeRule: Sendable {
        case http
        /// Only the first range counts, and one outside the object is ignored, unless the request asks for HTTP
        /// semantics ("How to obtain OSS resources by segmenting HTTP Range requests", OSS documentation).
        case firstWithin
    }

    /// The format of documents.
    struct Documents: Sendable {
        /// On the root of every document except errors.
        let namespace: String?
        /// Whether times have milliseconds.
        ///
        /// Some clients parse whole seconds only, which are written as `.000Z`.
        let hasFractions: Bool
        /// Whether object listings include the next marker even where the last key would do.
        let namesNextMarker: Bool
        /// Whether upload listings include the next marker even on the last page.
        let namesNextUpload: Bool
        /// Whether a list of uploads says whose they are.
        let listsOwnersOfUploads: Bool
        /// The next marker in a listing of no parts; `nil` where only a page with another one behind it has a marker.
        let nextPartOfNone: String?
        /// Whether bucket listings include locations.
        let namesLocations: Bool
        /// Whether bucket listings include endpoints.
        let namesEndpoints: Bool
        /// Whether listings include each object's type and each part's CRC-64.
        let namesObjectTypes: Bool
        /// The region that documents represent as empty.
        let unnamedRegion: String?
        /// Whether the owner of a bucket may create it again.
        let recreatesBuckets: Bool
    }

    /// The format of errors.
    struct Errors: Sendable {
        /// The vendor's codes where they differ from Amazon's.
        let codes: [ObjectErrorCode: String]
        let statuses: [ObjectErrorCode: Status]
        /// Messages that the vendor's clients compare.
        let messages: [ObjectErrorCode: String]
        /// For an existing object that the request must not replace.
        let forbiddenOverwrite: ObjectErrorCode
        /// Header fields with the error of a response without content.
        let headFields: [FieldName]
    }

    let fields: FieldTable
    /// Whether entity tags use upper-case hexadecimal digits.
    let capitalizesTags: Bool
    /// Whether entity tags and keywords of requests are case-sensitive, and clients receive tags as recorded.
    let hasCase: Bool
    /// The only supported storage class.
    let storageClass: String
    /// Minimum size of every part but the last, in bytes.
    let minimumPartSize: Int64
    /// In bytes: names, without the vendor's prefix, plus values.
    let maximumUserMetadata: Int
    /// Whether an upload without parts can be completed, as an empty object.
    let completesWithoutParts: Bool
    let copySource: CopySourceForm
    let ranges: RangeRule
    /// The values of the copy directive, and whether a copy then uses the request's values.
    let directives: [String: Bool]
    /// Whether a key may begin with a slash.
    let keepsLeadingSlashes: Bool
    /// Whether object content needs a length declared in advance.
    let needsLength: Bool
    /// The checksum of objects for which the client asks for none, if they have one.
    let usualChecksum: ObjectChecksum.Algorithm?
    /// Whether responses include the CRC-64 of objects and parts.
    let reportsCRC64: Bool
    /// Whether responses include the MD5 of content uploaded in one request.
    let reportsMD5: Bool
    /// Whether responses include the object's type and its append position.
    let reportsObjectType: Bool
    /// Whether non-ASCII metadata is sent as encoded words.
    let encodesMetadata: Bool
    /// The name of the server in responses; `nil` for none.
    let server: String?
    /// Whether responses for copies, of objects and of parts, and completed uploads have the entity tag in a header field
    /// as well.
    let reportsTagOfWhole: Bool
    let documents: Documents
    let errors: Errors

    init(
        fields: FieldTable,
        capitalizesTags: Bool,
        hasCase: Bool,
        storageClass: String,
        minimumPartSize: Int64,
        maximumUserMetadata: Int,
        completesWithoutParts: Bool,
        copySource: CopySourceForm,
        ranges: RangeRule,
        directives: [String: Bool],
        keepsLeadingSlashes: Bool,
        needsLength: Bool,
        usualChecksum: ObjectChecksum.Algorithm?,
        reportsCRC64: Bool,
        reportsMD5: Bool,
        reportsObjectType: Bool,
        encodesMetadata: Bool,
        server: String?,
        reportsTagOfWhole: Bool,
        documents: Documents,
        errors: Errors
    ) {
        self.fields = fields
        self.capitalizesTags = capitalizesTags
        self.hasCase = hasCase
        self.storageClass = storageClass
        self.minimumPartSize = minimumPartSize
        self.maximumUserMetadata = maximumUserMetadata
        self.completesWithoutParts = completesWithoutParts
        self.copySource = copySource
        self.ranges = ranges
        self.directives = directives
        self.keepsLeadingSlashes = keepsLeadingSlashes
        self.needsLength = needsLength
        self.usualChecksum = usualChecksum
        self.reportsCRC64 = reportsCRC64
        self.reportsMD5 = reportsMD5
        self.reportsObjectType = reportsObjectType
        self.encodesMetadata = encodesMetadata
        self.server = server
        self.reportsTagOfWhole = reportsTagOfWhole
        self.documents = documents
        self.errors = errors
    }
}

extension Vendor {
    var profile: VendorProfile { Self.profiles[self] }

    private static let profiles = PerVendor<VendorProfile>(aws: .aws, aliyun: .aliyun, tencent: .tencent)

    /// Prefix of the vendor's own header fields.
    var fieldPrefix: String { profile.fields.prefix }

    /// The key, or the prefix of keys, that a client means.
    func key(_ text: String) -> String {
        profile.keepsLeadingSlashes ? text : String(Substring(text.utf8.drop { $0 == UInt8(ascii: "/") }))
    }

    /// A recorded entity tag in quotes, in the form that the vendor's clients receive.
    func quoted(_ entityTag: String) -> String {
        "\"\(profile.capitalizesTags ? entityTag.uppercasedASCII() : entityTag)\""
    }
}
