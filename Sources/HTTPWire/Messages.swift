package import Bytes
package import Tracing

/// The head of a request: everything before its content.
package struct RequestHead: Sendable {
    package var method: HTTPMethod
    package var target: RequestTarget
    package var version: HTTPVersion
    package var fields: HTTPFields

    package init(method: HTTPMethod, target: RequestTarget, version: HTTPVersion = .http1_1, fields: HTTPFields) {
        self.method = method
        self.target = target
        self.version = version
        self.fields = fields
    }
}

/// The content of a request; its handler pulls it.
package protocol RequestBody: ByteSource {
    /// The trailer fields of a chunked body; empty before its end and if there are none.
    var trailers: HTTPFields { get }
}

/// The head of a final or interim response.
package struct ResponseHead: Sendable {
    package var status: Status
    package var fields: HTTPFields

    package init(_ status: Status, _ fields: HTTPFields = HTTPFields()) {
        self.status = status
        self.fields = fields
    }
}

/// One request, as passed to a handler.
///
/// It belongs to the task of its connection.
package struct Request {
    package var head: RequestHead
    package var body: any RequestBody
    /// Identifies the request in logs and responses (`X-Request-ID`).
    package let id: String
    /// Numeric address of the peer, without port.
    package let peerAddress: String
    package let peerPort: Int
    /// Numeric address of the client: that of the peer, or what a trusted proxy says.
    package var clientAddress: String
    package let isEncrypted: Bool
    /// Sends an interim response (1xx other than 100 and 101) at once; does nothing for an HTTP/1.0 client.
    package let inform: (ResponseHead) async throws(SinkFailure) -> Void

    package init(
        head: RequestHead,
        body: any RequestBody,
        id: String,
        peerAddress: String,
        peerPort: Int = 0,
        isEncrypted: Bool,
        inform: @escaping (ResponseHead) async throws(SinkFailure) -> Void
    ) {
        self.head = head
        self.body = body
        self.id = id
        self.peerAddress = peerAddress
        self.peerPort = peerPort
        clientAddress = peerAddress
        self.isEncrypted = isEncrypted
        self.inform = inform
    }
}

/// The response of a handler.
package struct Response: Sendable {
    package enum Content: Sendable {
        case empty
        case bytes([UInt8])
        case file(FileRegion)
        /// Streamed: the closure writes the content while it is sent; chunked if `length` is `nil`. Returns the trailer
        /// fields.
        case stream(length: Int64?, @Sendable (any ByteSink) async throws -> HTTPFields)
    }

    package var status: Status
    package var fields: HTTPFields
    package var content: Content
    /// Whether the connection is closed after this response.
    package var closesConnection = false
    /// Data for logs and metrics; never sent.
    package var trace = Trace()

    package struct Trace: Sendable {
        /// The template of the route, such as `/v1/uploads/{id}`.
        ///
        /// There is a limited number of these, so it can be a metric label.
        package var route: String?
        /// The upload or media that the request was about; an id, not a credential.
        package var uploadID: String?
        /// The media that the request was about: its upload's id, or the id that the apps of a video service know.
        package var mediaID: String?
        /// The stable error code of an error response.
        package var errorCode: String?
        /// The client behind a trusted proxy; `nil` if the peer is the client.
        package var clientAddress: String?
        /// Who sent the request; `nil` if requests are not logged.
        package var note: RequestNote?
        /// The span of the request; `nil` if there are no traces.
        package var scope: TraceScope?
        /// Whether the request came over TLS; only with a span.
        package var isEncrypted = false
        /// The protocol of the request; `nil` if nothing is served at its path.
        package var dialect: Dialect?

        package init(route: String? = nil, uploadID: String? = nil, errorCode: String? = nil) {
            self.route = route
            self.uploadID = uploadID
            self.errorCode = errorCode
        }

        /// Notes the upload that the request was about.
        ///
        /// - Parameters:
        ///   - upload: Its id.
        ///   - isMedia: Whether it is complete, and thus media with the same id.
        package mutating func note(upload: String, isMedia: Bool) {
            uploadID = upload
            if isMedia { mediaID = upload }
        }

        /// What a client speaks, as logs name it; for uploads, what their records have as their dialect.
        ///
        /// A video service names its own one.
        package struct Dialect: Sendable, Equatable {
            package let name: String

            package init(_ name: String) { self.name = name }

            package static let tus = Self("tus")
            /// The draft of the IETF, and single files.
            package static let http = Self("http")
            package static let form = Self("form")
            package static let s3 = Self("s3")
            package static let oss = Self("oss")
            package static let cos = Self("cos")
            /// The security token services of all vendors.
            package static let sts = Self("sts")
            /// Uppy's protocol of Companion.
            package static let companion = Self("companion")
            /// The REST API, probes and metrics.
            package static let management = Self("management")
        }
    }

    package init(_ status: Status, _ fields: HTTPFields = HTTPFields(), _ content: Content = .empty) {
        self.status = status
        self.fields = fields
        self.content = content
    }
}

/// Handles requests.
///
/// It runs on the event loop of the connection, so it must not block.
package protocol RequestHandler: Sendable {
    func respond(to request: Request) async -> Response
}
