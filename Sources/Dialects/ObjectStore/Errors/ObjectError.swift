internal import Bytes
package import HTTPWire
package import Signing

/// An error response of the object endpoint, with the codes of S3; see `ObjectError+Vendors.swift` for OSS and COS.
package struct ObjectError: Error, Sendable, Equatable {
    /// An extra element of the response, such as `Region`.
    package struct Detail: Sendable, Equatable {
        package let name: String
        package let text: String

        package init(_ name: String, _ text: String) {
            self.name = name
            self.text = text
        }
    }

    package var code: ObjectErrorCode
    /// For the client: what to change; contains no secrets.
    package var message: String
    package var details: [Detail]
    /// Header fields of the response.
    package var fields: HTTPFields
    /// The status, where it is not that of the code.
    var status: Status?
    /// Set if the connection cannot be reused, because the rest of this request may still arrive.
    package var closesConnection = false
    /// The vendor of the form; for other requests the head shows the vendor.
    var vendor: Vendor?

    package init(
        _ code: ObjectErrorCode,
        _ message: String? = nil,
        details: [Detail] = [],
        fields: HTTPFields = HTTPFields()
    ) {
        self.code = code
        self.message = message ?? code.usualMessage
        self.details = details
        self.fields = fields
    }

    /// An invalid argument; `value` is included if it is short.
    package static func argument(_ name: String, _ value: String?, _ message: String) -> ObjectError {
        var details = [Detail("ArgumentName", name)]
        if let value, value.utf8.count <= 256 { details.append(Detail("ArgumentValue", value)) }
        return ObjectError(.invalidArgument, message, details: details)
    }

    /// The document of the response ("REST error responses", Amazon S3 API Reference).
    ///
    /// - Parameters:
    ///   - resource: The path of the request, unchanged.
    ///   - requestID: The request id, as in logs.
    /// - Returns: XML.
    package func document(resource: String, requestID: String) -> [UInt8] {
        var document = XMLWriter("Error", .aws, hasNamespace: false)
        document.element("Code", code.rawValue)
        document.element("Message", message)
        for detail in details { document.element(detail.name, detail.text) }
        document.element("Resource", resource)
        document.element("RequestId", requestID)
        return document.finished()
    }

    /// The response; no document for HEAD or with status 304.
    ///
    /// - Parameters:
    ///   - head: The request head.
    ///   - requestID: The request id, as in logs.
    ///   - vendor: The vendor whose client reads it.
    /// - Returns: A response with only this content.
    package func response(
        to head: RequestHead,
        requestID: String,
        for vendor: Vendor = .aws
    ) -> Response {
        let status = status(vendor)
        var response = Response(status)
        response.fields.append(contentsOf: fields)
        vendor.finish(&response.fields, requestID: requestID)
        let document = status.forbidsContent ? [] : document(vendor, to: head, requestID: requestID)
        if head.method != .head, !status.forbidsContent {
            response.fields["Content-Type"] = "application/xml"
            response.content = .bytes(document)
        } else if !document.isEmpty {
            for field in vendor.profile.errors.headFields { response.fields[field] = Base64.encode(document) }
        }
        response.closesConnection = closesConnection
        response.trace.errorCode = codeText(vendor)
        return response
    }

    /// The response in the form of the vendor whose client sent the request.
    package func response(to request: Request) -> Response {
        response(to: request.head, requestID: request.id, for: Vendor(of: request.head))
    }

    /// What the request is about, so that "not found" errors name the right thing.
    package enum Subject: Sendable {
        case object, upload
    }
}
