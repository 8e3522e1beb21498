internal import Bytes
package import HTTPWire

extension SigningRequest {
    /// What of a request is signed.
    ///
    /// - Throws: If the query cannot be parsed.
    package init(_ head: RequestHead) throws(QueryItems.Failure) {
        let query = try head.target.queryItems()
        // The authority of the target stands in for Host (RFC 9112 §3.2.2).
        let authority = head.target.authority
        let headers = head.fields.entries.indices.compactMap { index -> SigningField? in
            let name = head.fields.name(at: index)
            let value = head.fields.value(at: index)
            switch name.lowercasedASCII() {
            case "host" where authority != nil: return nil
            // As clients without credentials send it.
            case "authorization" where value.isEmpty: return nil
            default: return SigningField(name, value)
            }
        }
        self.init(
            method: head.method.rawValue,
            host: authority,
            path: head.target.rawPath,
            query: query.items.map { SigningField($0.name, $0.value) },
            headers: headers,
            date: head.fields["Date"].flatMap { HTTPDate.parseZoned($0) }
        )
    }
}
