internal import Bytes

/// A media type with its parameters (RFC 9110 §8.3.1).
package struct MediaType: Sendable, Hashable, CustomStringConvertible {
    package struct Parameter: Sendable, Hashable {
        /// In lower case.
        package let name: String
        package let value: String
    }

    /// In lower case.
    package let type: String
    /// In lower case.
    package let subtype: String
    package let parameters: [Parameter]

    /// Parses `text`; `nil` if it is malformed.
    package init?(_ text: some StringProtocol) {
        let pieces = FieldValueSyntax.split(text, at: UInt8(ascii: ";"))
        guard let essence = pieces.first, text.trimmingWhitespace().first != ";" else { return nil }
        let halves = essence.split(separator: "/", omittingEmptySubsequences: false)
        guard halves.count == 2, halves.allSatisfy({ FieldValueSyntax.isToken($0) }) else { return nil }
        type = halves[0].lowercasedASCII()
        subtype = halves[1].lowercasedASCII()
        var parameters: [Parameter] = []
        for piece in pieces.dropFirst() {
            guard let (name, value) = FieldValueSyntax.parameter(piece) else { return nil }
            parameters.append(Parameter(name: name, value: value))
        }
        self.parameters = parameters
    }

    /// `type/subtype`, in lower case, without parameters.
    package var essence: String { type + "/" + subtype }

    /// Whether browsers display the type without executing anything in it.
    ///
    /// Any type that ends in `+xml` is a document to browsers, and can contain scripts (WHATWG MIME Sniffing, "XML MIME
    /// type").
    package var isSafeInline: Bool {
        switch type {
        case "video", "audio", "image": !subtype.hasSuffix("+xml")
        case "text": subtype == "plain"
        default: false
        }
    }

    package func parameter(_ name: String) -> String? {
        parameters.first { $0.name == name.lowercasedASCII() }?.value
    }

    package var description: String {
        parameters.reduce(essence) { text, parameter in
            guard !FieldValueSyntax.isToken(parameter.value) else {
                return text + "; \(parameter.name)=\(parameter.value)"
            }
            // Scalars, not characters: a combining mark after a quote forms one Character with it.
            var escaped = String.UnicodeScalarView()
            for scalar in parameter.value.unicodeScalars {
                if scalar == "\"" || scalar == "\\" { escaped.append("\\") }
                escaped.append(scalar)
            }
            return text + "; \(parameter.name)=\"\(String(escaped))\""
        }
    }
}
