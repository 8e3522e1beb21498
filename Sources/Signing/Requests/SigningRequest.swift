/// A name and its value: a header field, or a decoded parameter of a query.
package struct SigningField: Sendable, Equatable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// What the signature of a request is made of, in any of the schemes here.
package struct SigningRequest: Sendable, Equatable {
    package var method: String
    /// The path as it stands in the request line, with its escapes, without the query.
    package var path: String
    /// The parameters of the query, decoded, in any order; one without `=` has an empty value.
    package var query: [SigningField]
    /// In any order, their names in any case.
    ///
    /// `host` is one of them; a signer does not look at those that it adds itself.
    package var headers: [SigningField]
    /// What signers say of the content; schemes that do not sign it (OSS, COS) do not look at it.
    ///
    /// A verifier reads it from the header that the scheme has for it (`x-amz-content-sha256`, `x-acs-content-sha256`), and takes
    /// this one only if the scheme has none or the request need not have it.
    package var payload: SigV4Payload
    /// Unix seconds of the header `Date` in the form of HTTP, if there is one; for verifiers of AWS, which use it where
    /// `x-amz-date` is missing.
    package var date: Int64?

    /// A request with these parts; `host` is put in front of the headers, unless it is `nil` because it is there already.
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

    /// The path of an object in the form in which S3 and OSS sign it, so that it can be sent as it is.
    ///
    /// - Parameter text: Decoded; every `/` separates segments.
    /// - Returns: All but `/` and the unreserved characters of RFC 3986 §2.3 escaped.
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
