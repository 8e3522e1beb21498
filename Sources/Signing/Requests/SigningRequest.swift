/// A name and a value: a header field, or a decoded query parameter.
package struct SigningField: Sendable, Equatable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// The signed properties of a request, for all schemes.
package struct SigningRequest: Sendable, Equatable {
    package var method: String
    /// The path as in the request line, with its escapes, without the query.
    package var path: String
    /// The decoded query parameters in any order; a parameter without `=` has an empty value.
    package var query: [SigningField]
    /// In any order, with names in any case.
    ///
    /// Includes `host`. A signer ignores headers that it sets itself.
    package var headers: [SigningField]
    /// What signers declare about the content; schemes that do not sign it (OSS, COS) ignore it.
    ///
    /// A verifier reads it from the header of the scheme (`x-amz-content-sha256`, `x-acs-content-sha256`), and uses
    /// this value only if the scheme has no such header or does not require it.
    package var payload: SigV4Payload
    /// The value of the header `Date` in Unix seconds, if it is a date; verifiers of AWS use it if `x-amz-date`
    /// is missing.
    package var date: Int64?

    /// Puts `host` before the headers, unless it is `nil` because they already include it.
    package init(
        method: String,
        host: String? = nil,
        path: String,
        query: [SigningField] = [],
        headers: [SigningField] = [],
        payload: SigV4Payload = .empty,
        date: Int64? = nil
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = (host.map { [SigningField("host", $0)] } ?? []) + headers
        self.payload = payload
        self.date = date
    }

    /// The path of an object in the form that S3 and OSS sign, so that it can be sent unchanged.
    ///
    /// - Parameter text: Decoded; each `/` separates segments.
    /// - Returns: Everything except `/` and the unreserved characters of RFC 3986 §2.3 escaped.
    package static func path(of text: String) -> String {
        var bytes: [UInt8] = []
        for (index, segment) in text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .enumerated()
        {
            if index > 0 { bytes.append(UInt8(ascii: "/")) }
            FormEncoding.append(segment, to: &bytes)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
