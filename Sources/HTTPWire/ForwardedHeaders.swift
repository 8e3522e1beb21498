internal import Bytes

/// What a proxy reports about the request that it received: `Forwarded` (RFC 7239), otherwise `X-Forwarded-…`.
///
/// Any client can send these fields: use them only if the peer is a trusted proxy. Each proxy appends an element to a list,
/// which tells of its own peer. So the list is read from its end: an element counts if the one after it tells of a trusted
/// proxy, and what a client made up is never reached. Nor does it change how what follows is read: a quoted string that a
/// client left open ends at the element in which it begins, and nothing before counts. Invalid values are ignored.
package struct ForwardedHeaders: Sendable, Equatable {
    /// `http` or `https`.
    package let scheme: String?
    /// Host with optional port, as the client sent it.
    package let host: String?
    /// Numeric address of the client, without port and brackets.
    package let client: String?
    /// Whether there is a list of clients, but no address in the element that counts: `unknown`, none, or one that cannot be read.
    package let hidesClient: Bool

    /// - Parameters:
    ///   - fields: Of a request whose peer is a trusted proxy.
    ///   - isTrusted: Whether an address is that of a trusted proxy.
    package init(_ fields: HTTPFields, isTrusted: (String) -> Bool) {
        let scheme: String?
        let host: String?
        let client: String?
        if fields.contains("Forwarded") {
            let elements = Self.elements(fields.all("Forwarded"))
            let nodes = elements.map { pairs in pairs.first { $0.name == "for" }?.value ?? "" }
            let pairs = Self.element(of: elements, Self.steps(nodes, isTrusted)) ?? []
            scheme = pairs.first { $0.name == "proto" }?.value
            host = pairs.first { $0.name == "host" }?.value
            client = pairs.first { $0.name == "for" }?.value
        } else {
            let nodes = fields.list("X-Forwarded-For")
            let steps = Self.steps(nodes, isTrusted)
            scheme = Self.element(of: fields.list("X-Forwarded-Proto"), steps)
            host = Self.element(of: fields.list("X-Forwarded-Host"), steps)
            client = Self.element(of: nodes, steps)
        }
        self.scheme = scheme.map { $0.lowercasedASCII() }.flatMap { $0 == "http" || $0 == "https" ? $0 : nil }
        self.host = host.flatMap { Authority.isValid($0) ? $0 : nil }
        self.client = client.flatMap(Self.address)
        // A client can send the list that a proxy does not.
        hidesClient = self.client == nil && (fields.contains("Forwarded") || fields.contains("X-Forwarded-For"))
    }

    /// The parameters of each element, up to the last one that is malformed, which a proxy has not written.
    ///
    /// - Parameter lines: The values of all fields, each of which is a list.
    /// - Returns: In the order of the lines.
    private static func elements(_ lines: [String]) -> [[(name: String, value: String)]] {
        var elements: [[(name: String, value: String)]] = []
        for line in lines.reversed() {
            for text in FieldValueSyntax.splitFromEnd(line, at: UInt8(ascii: ",")) {
                guard let text, let parameters = parameters(text) else { return elements.reversed() }
                elements.append(parameters)
            }
        }
        return elements.reversed()
    }

    /// - Returns: `nil` if a quotation mark is where none can be.
    private static func parameters(_ element: String) -> [(name: String, value: String)]? {
        var parameters: [(name: String, value: String)] = []
        for text in FieldValueSyntax.split(element, at: UInt8(ascii: ";")) {
            if let parameter = pair(text) {
                parameters.append(parameter)
            } else if text.utf8.contains(UInt8(ascii: "\"")) {
                return nil
            }
        }
        return parameters
    }

    /// How many elements at the end tell of trusted proxies.
    private static func steps(_ nodes: [String], _ isTrusted: (String) -> Bool) -> Int {
        nodes.reversed().prefix { node in address(node).map(isTrusted) ?? false }.count
    }

    /// The element so many steps before the last; many proxies send a single one.
    private static func element<Element>(of list: [Element], _ steps: Int) -> Element? {
        list.isEmpty ? nil : list[max(0, list.count - 1 - steps)]
    }

    /// The name (in lower case) and the value of `name=value`.
    ///
    /// Values with ports must be quoted (RFC 7239 §4), but many proxies omit the quotes. Each value is validated
    /// separately anyway.
    private static func pair(_ text: String) -> (name: String, value: String)? {
        if let parameter = FieldValueSyntax.parameter(text) { return parameter }
        guard let equals = text.firstIndex(of: "="), !text.utf8.contains(UInt8(ascii: "\"")) else { return nil }
        return (text[..<equals].lowercasedASCII(), String(text[text.index(after: equals)...]))
    }

    /// The address in `node` (RFC 7239 §6): IPv4 with or without port, IPv6 bare or in brackets with or without port.
    private static func address(_ node: String) -> String? {
        if node.first == "[" {
            guard let end = node.firstIndex(of: "]"), isPort(node[node.index(after: end)...]) else { return nil }
            let address = node[node.index(after: node.startIndex)..<end]
            return isIPv6(address) ? address.lowercasedASCII() : nil
        }
        if isIPv6(node) { return node.lowercasedASCII() }
        let address = node.prefix { $0 != ":" }
        return isIPv4(address) && isPort(node[address.endIndex...]) ? String(address) : nil
    }

    private static func isPort(_ text: Substring) -> Bool {
        guard !text.isEmpty else { return true }
        return text.first == ":" && text.utf8.count > 1 && text.utf8.dropFirst().allSatisfy(HTTPCharacters.isDigit)
    }

    /// RFC 3986 §3.2.2, `IPv4address`: no leading zeros, which some read as octal.
    private static func isIPv4(_ text: some StringProtocol) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 4
            && parts.allSatisfy { part in
                (1...3).contains(part.count) && part.allSatisfy(HTTPCharacters.isDigit)
                    && (part.count == 1 || part.first != UInt8(ascii: "0"))
                    && part.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) } < 256
            }
    }

    /// Up to eight groups of hexadecimal digits, one gap `::`, the last two groups perhaps as IPv4 (RFC 4291 §2.2).
    private static func isIPv6(_ text: some StringProtocol) -> Bool {
        let text = String(text)
        guard text.contains(":"), !text.contains(":::") else { return false }
        var groups = 0
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() where !part.isEmpty {
            if index == parts.count - 1, part.contains(".") {
                guard isIPv4(part) else { return false }
                groups += 2
            } else {
                guard part.utf8.count <= 4, part.utf8.allSatisfy({ Hexadecimal.value(of: $0) != nil }) else {
                    return false
                }
                groups += 1
            }
        }
        let gaps = text.indices.filter { text[$0...].hasPrefix("::") }.count
        guard gaps <= 1 else { return false }
        // A single colon at either end is invalid.
        if text.hasPrefix(":") && !text.hasPrefix("::") || text.hasSuffix(":") && !text.hasSuffix("::") { return false }
        return gaps == 1 ? groups <= 7 : groups == 8
    }
}
