internal import Bytes
package import HTTPWire

/// Why a request to the S3 endpoint gets no good answer.
package struct S3Error: Error, Sendable, Equatable {
    /// An element of the answer besides the usual ones, such as `Region`.
    package struct Detail: Sendable, Equatable {
        package let name: String
        package let text: String

        package init(_ name: String, _ text: String) {
            self.name = name
            self.text = text
        }
    }

    package var code: S3ErrorCode
    /// For the client: what to change; holds no secret.
    package var message: String
    package var details: [Detail]
    /// Header fields of the answer.
    package var fields: HTTPFields
    /// No other request of the connection can be told from what may still come of this one.
    package var closesConnection = false
    /// Whose client filled in the form that it is about; of other requests the head tells.
    var dialect: ObjectDialect?

    package init(
        _ code: S3ErrorCode,
        _ message: String? = nil,
        details: [Detail] = [],
        fields: HTTPFields = HTTPFields()
    ) {
        self.code = code
        self.message = message ?? code.usualMessage
        self.details = details
        self.fields = fields
    }

    /// An argument that is not valid; `value` is shown if it is short.
    package static func argument(_ name: String, _ value: String?, _ message: String) -> S3Error {
        var details = [Detail("ArgumentName", name)]
        if let value, value.utf8.count <= 256 { details.append(Detail("ArgumentValue", value)) }
        return S3Error(.invalidArgument, message, details: details)
    }

    /// The document of the answer ("REST error responses", Amazon S3 API Reference).
    ///
    /// - Parameters:
    ///   - resource: The path of the request, as it came.
    ///   - requestID: As in logs.
    /// - Returns: XML.
    package func document(resource: String, requestID: String) -> [UInt8] {
        var document = XMLWriter("Error", .s3, hasNamespace: false)
        document.element("Code", code.rawValue)
        document.element("Message", message)
        for detail in details { document.element(detail.name, detail.text) }
        document.element("Resource", resource)
        document.element("RequestId", requestID)
        return document.finished()
    }

    /// The answer; for HEAD, and with the status 304, without a document.
    ///
    /// - Parameters:
    ///   - head: Of the request.
    ///   - requestID: As in logs.
    ///   - dialect: Whose client reads it.
    /// - Returns: An answer without more content than it has here.
    package func response(
        to head: RequestHead,
        requestID: String,
        for dialect: ObjectDialect = .s3
    ) -> Response {
        if dialect == .oss, code == .preconditionFailed, head.fields["x-oss-forbid-overwrite"] != nil {
            return S3Error(.fileAlreadyExists).response(to: head, requestID: requestID, for: dialect)
        }
        let status = status(dialect)
        var response = Response(status)
        response.fields.append(contentsOf: fields)
        dialect.finish(&response.fields, requestID: requestID)
        let document = status.forbidsContent ? [] : document(dialect, to: head, requestID: requestID)
        if head.method != .head, !status.forbidsContent {
            response.fields["Content-Type"] = "application/xml"
            response.content = .bytes(document)
        } else if dialect == .oss, !document.isEmpty {
            // Its clients read the error there.
            response.fields["x-oss-err"] = Base64.encode(document)
        }
        response.closesConnection = closesConnection
        response.trace.errorCode = codeText(dialect)
        return response
    }

    /// What part of an upload, or whole object, is meant by errors that say that something is not there.
    package enum Subject: Sendable {
        case object, upload
    }
}
