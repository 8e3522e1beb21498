internal import HTTPWire
internal import Signing

/// What a signature of COS covers.
///
/// Clients list in `q-header-list` and `q-url-param-list` what they sign ("Request signature", COS documentation, 436/7778). Whoever
/// gets hold of a presigned URL can add whatever is not listed, so that must not change what is done. S3 and OSS need no such
/// check: their signatures cover all parameters that matter, and all fields with the vendor's prefix.
extension COSClaim {
    /// Checks that the signature covers all parameters and fields of a request that change what it does.
    ///
    /// Others may be left out, as real clients leave them out: conditions, ranges, `Content-Type`, the token, and fields without
    /// effect here. So may what narrows a listing: the same signature is good for the listing without it.
    ///
    /// - Parameters:
    ///   - head: As it was sent.
    ///   - query: Its parameters, decoded.
    /// - Throws: `AccessDenied` for what must be signed; `InvalidArgument` for the name of a parameter in other letters, which would
    ///   be signed as the parameter and not be heeded as it.
    func checkCoverage(of head: RequestHead, _ query: [SigningField]) throws(S3Error) {
        for parameter in query {
            let lowercased = parameter.name.lowercased()
            if let name = S3Request.parameters[lowercased], name != parameter.name {
                throw .argument(parameter.name, nil, "The parameter must be written \(name).")
            }
            guard S3Request.isDecisive(parameter: parameter.name) else { continue }
            guard signedParameters.contains(lowercased) else {
                throw S3Error(
                    .accessDenied,
                    "The parameter \(parameter.name) must be signed: list it in q-url-param-list."
                )
            }
        }
        let prefix = ObjectDialect.cos.fieldPrefix
        for index in head.fields.entries.indices {
            let name = head.fields.name(at: index).lowercased()
            guard name.hasPrefix(prefix), Self.isDecisive(field: name.dropFirst(prefix.count)) else { continue }
            guard signedHeaders.contains(name) else {
                throw S3Error(.accessDenied, "The header \(name) must be signed: list it in q-header-list.")
            }
        }
    }

    /// Whether a field changes what is done, by its name without `x-cos-`; what is refused in any case is not among them.
    private static func isDecisive(field name: Substring) -> Bool {
        name.hasPrefix("meta-") || name.hasPrefix("copy-source")
            || ["tagging", "tagging-directive", "metadata-directive", "forbid-overwrite"].contains(name)
    }
}
