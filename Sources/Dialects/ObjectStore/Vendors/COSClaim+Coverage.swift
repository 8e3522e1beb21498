internal import Bytes
internal import HTTPWire
internal import Signing

/// What a signature of COS covers.
///
/// Clients list what they sign in `q-header-list` and `q-url-param-list` ("Request signature", COS documentation,
/// 436/7778). Anyone with a presigned URL can add unlisted fields and parameters, so these must not change the effect.
/// S3 and OSS need no such check: their signatures cover all relevant parameters, and all fields with the vendor's
/// prefix.
extension COSClaim {
    /// Checks that the signature covers all parameters and fields that change the effect of a request.
    ///
    /// Others may be unsigned, because real clients leave them out: conditions, ranges, `Content-Type`, the token, and
    /// fields without effect here. So may parameters that narrow a listing, because the same signature also allows the
    /// listing without them.
    ///
    /// - Parameters:
    ///   - head: The head as sent.
    ///   - query: The decoded parameters.
    ///   - isObject: Whether the path names an object; a bucket has more sub-resources.
    /// - Throws: `AccessDenied` if something is unsigned that must be signed; `InvalidArgument` for a parameter name in
    ///   different case, which would be signed as that parameter but ignored when executed.
    func checkCoverage(of head: RequestHead, _ query: [SigningField], isObject: Bool) throws(ObjectError) {
        for parameter in query {
            let lowercased = parameter.name.lowercasedASCII()
            if let name = OperationDecoder.parameters[lowercased], name != parameter.name {
                throw .argument(parameter.name, nil, "The parameter must be written \(name).")
            }
            let isAbsent = !isObject && AbsentConfiguration(parameter.name, of: .tencent) != nil
            // The SDK for Python does not sign `intelligent-tiering`. What no bucket has is the same for everyone.
            if isAbsent, head.method == .get { continue }
            guard isAbsent || OperationDecoder.isDecisive(parameter: parameter.name) else { continue }
            guard signedParameters.contains(lowercased) else {
                throw ObjectError(
                    .accessDenied,
                    "The parameter \(parameter.name) must be signed: list it in q-url-param-list."
                )
            }
        }
        let prefix = Vendor.tencent.fieldPrefix
        for index in head.fields.entries.indices {
            let name = head.fields.name(at: index).lowercasedASCII()
            guard name.hasPrefix(prefix), Self.isDecisive(field: name.dropFirst(prefix.count)) else { continue }
            guard signedHeaders.contains(name) else {
                throw ObjectError(.accessDenied, "The header \(name) must be signed: list it in q-header-list.")
            }
        }
    }

    /// Whether a field changes the effect, by its name without `x-cos-`; fields that are always refused are not
    /// included.
    private static func isDecisive(field name: Substring) -> Bool {
        name.hasPrefix("meta-") || name.hasPrefix("copy-source")
            || ["tagging", "tagging-directive", "metadata-directive", "forbid-overwrite"].contains(name)
    }
}
