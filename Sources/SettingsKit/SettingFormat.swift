internal import HTTPWire
package import Transport

/// How values of one type are parsed, formatted and described.
package struct SettingFormat<Value: Sendable>: Sendable {
    /// The allowed values, for messages and the documentation.
    package let allowed: String
    /// Whether a YAML sequence may stand for the text, its elements separated by commas.
    package let isList: Bool
    /// Whether the text is JSON, for which any YAML node may stand; its scalars become strings.
    package let isStructured: Bool
    /// Parses `text`; `nil` if it is not allowed.
    package let parse: @Sendable (_ text: String) -> Value?
    /// Formats a value; `nil` if it means "not set".
    package let render: @Sendable (Value) -> String?

    package init(
        allowed: String,
        isList: Bool = false,
        isStructured: Bool = false,
        parse: @escaping @Sendable (_ text: String) -> Value?,
        render: @escaping @Sendable (Value) -> String?
    ) {
        self.allowed = allowed
        self.isList = isList
        self.isStructured = isStructured
        self.parse = parse
        self.render = render
    }
}

extension SettingFormat {
    /// The same format for an optional value.
    package var optional: SettingFormat<Value?> {
        let (parse, render) = (parse, render)
        return SettingFormat<Value?>(
            allowed: allowed,
            isList: isList,
            isStructured: isStructured,
            parse: { text in parse(text).map { .some($0) } },
            render: { value in value.flatMap(render) }
        )
    }

    /// The same format for a secret.
    package var secret: SettingFormat<Secret<Value>> {
        let (parse, render) = (parse, render)
        return SettingFormat<Secret<Value>>(
            allowed: allowed,
            isList: isList,
            parse: { text in parse(text).map { Secret($0) } },
            render: { value in render(value.exposed) }
        )
    }
}

extension SettingFormat where Value == String {
    package static let path = SettingFormat(
        allowed: "a path",
        parse: { $0.isEmpty || $0.utf8.contains(0) ? nil : $0 },
        render: { $0 }
    )

    package static let absolutePath = SettingFormat(
        allowed: "an absolute path",
        parse: { $0.hasPrefix("/") ? path.parse($0) : nil },
        render: { $0 }
    )

    /// Printable ASCII characters without space.
    package static func visible(minimum: Int) -> SettingFormat {
        SettingFormat(
            allowed: "at least \(minimum) visible ASCII characters, no space",
            parse: { text in
                text.utf8.count >= minimum && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ? text : nil
            },
            render: { $0 }
        )
    }

    package static let publicURL = SettingFormat(
        allowed: "an absolute http or https URL such as https://uploads.example.com/prefix, without query",
        parse: publicURL(in:),
        render: { $0 }
    )

    private static func publicURL(in text: String) -> String? {
        var url = text[...]
        while url.last == "/" { url = url.dropLast() }
        guard let target = try? RequestTarget(parsing: url), let authority = target.authority, target.rawQuery == nil
        else { return nil }
        let scheme = url.prefix { $0 != ":" }.lowercased()
        guard target.rawPath != "/" else { return "\(scheme)://\(authority)" }
        // Clients and proxies would remove an empty or a dot segment.
        guard !target.segments.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else { return nil }
        return "\(scheme)://\(authority)\(target.rawPath)"
    }
}

extension SettingFormat where Value == String {
    /// Where something is posted.
    package static let receiverURL = SettingFormat(
        allowed: "an absolute http or https URL such as https://app.example.com/hooks",
        parse: { text in
            guard let target = try? RequestTarget(parsing: text), target.authority != nil else { return nil }
            return text
        },
        render: { $0 }
    )

    /// `http(s)://host[:port]`.
    package static let origin = SettingFormat(
        allowed: "an http or https URL without a path, such as https://s3.example.com:9000",
        parse: { text in publicURL(in: text).flatMap { $0.split(separator: "/").count == 2 ? $0 : nil } },
        render: { $0 }
    )

    package static let bucket = SettingFormat(
        allowed: "3 to 63 lower-case letters, digits, dots and hyphens",
        parse: { text in
            let isPlain = text.utf8.allSatisfy { byte in
                (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2D || byte == 0x2E
            }
            return isPlain && (3...63).contains(text.utf8.count) && text != "..." ? text : nil
        },
        render: { $0 }
    )

    package static let keyPrefix = SettingFormat(
        allowed: "visible ASCII characters and a slash at the end, not at the beginning",
        parse: { text in
            let segments = text.split(separator: "/", omittingEmptySubsequences: false).dropLast()
            let isClean = !segments.contains { $0.isEmpty || $0 == "." || $0 == ".." }
            return text.hasSuffix("/") && isClean && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ? text : nil
        },
        render: { $0 }
    )
}

extension SettingFormat where Value == Int {
    package static func count(_ range: ClosedRange<Int>, meaning: String = "") -> SettingFormat {
        SettingFormat(
            allowed: "\(range.lowerBound) to \(range.upperBound)" + meaning,
            parse: { text in
                DecimalText.parse(text).flatMap { Int(exactly: $0) }.flatMap { range.contains($0) ? $0 : nil }
            },
            render: { String($0) }
        )
    }

    package static func bytes(_ range: ClosedRange<Int>) -> SettingFormat {
        let wide = SettingFormat<Int64>.bytes(Int64(range.lowerBound)...Int64(range.upperBound))
        return SettingFormat(
            allowed: wide.allowed,
            parse: { text in wide.parse(text).map { Int($0) } },
            render: { wide.render(Int64($0)) }
        )
    }
}

extension SettingFormat where Value == [String] {
    package static let paths = texts("paths separated by commas") { SettingFormat<String>.path.parse($0) != nil }

    /// A list of strings; may be empty.
    package static func texts(_ allowed: String, _ isValid: @escaping @Sendable (String) -> Bool) -> SettingFormat {
        SettingFormat(
            allowed: allowed,
            isList: true,
            parse: { text in ListText.parse(text, empty: []) { isValid($0) ? $0 : nil } },
            render: { $0.isEmpty ? nil : $0.joined(separator: ", ") }
        )
    }
}

extension SettingFormat where Value == [String] {
    package static let buckets = texts("names of buckets separated by commas") {
        SettingFormat<String>.bucket.parse($0) != nil
    }
}

extension SettingFormat {
    /// A subset of the cases.
    package static func names<Name: RawRepresentable<String> & CaseIterable & Hashable & Sendable>() -> SettingFormat
    where Value == Set<Name> {
        SettingFormat(
            allowed: "names separated by commas: " + Name.allCases.map(\.rawValue).joined(separator: ", "),
            isList: true,
            parse: { text in ListText.parse(text, empty: []) { Name(rawValue: $0) }.map { Set($0) } },
            render: { names in
                Name.allCases.filter(names.contains).map(\.rawValue).joined(separator: ", ")
            }
        )
    }
}

extension SettingFormat where Value == Int64 {
    package static func count(_ range: ClosedRange<Int64>) -> SettingFormat {
        SettingFormat(
            allowed: "an integer from \(range.lowerBound)",
            parse: { text in DecimalText.parse(text).flatMap { range.contains($0) ? $0 : nil } },
            render: { String($0) }
        )
    }

    package static func bytes(_ range: ClosedRange<Int64>) -> SettingFormat {
        let bounds = "\(ByteCountText.format(range.lowerBound)) to \(ByteCountText.format(range.upperBound))"
        return SettingFormat(
            allowed: "\(bounds), in bytes or with a unit: 512, 64KiB, 10MB, 1GiB, 1TiB",
            parse: { text in ByteCountText.parse(text).flatMap { range.contains($0) ? $0 : nil } },
            render: { ByteCountText.format($0) }
        )
    }
}

extension SettingFormat where Value == Duration {
    package static func duration(_ range: ClosedRange<Duration>) -> SettingFormat {
        let bounds = "\(DurationText.format(range.lowerBound)) to \(DurationText.format(range.upperBound))"
        return SettingFormat(
            allowed: "\(bounds), with a unit: 500ms, 15s, 5m, 24h, 7d",
            parse: { text in DurationText.parse(text).flatMap { range.contains($0) ? $0 : nil } },
            render: { DurationText.format($0) }
        )
    }
}

extension SettingFormat where Value == Duration? {
    /// A duration that `0` disables.
    package static func duration(_ range: ClosedRange<Duration>, zero meaning: String) -> SettingFormat {
        let some = SettingFormat<Duration>.duration(range)
        return SettingFormat(
            allowed: "\(some.allowed); 0 is \(meaning)",
            parse: { text in
                guard DurationText.parse(text) == .zero else { return some.parse(text).map { .some($0) } }
                return .some(nil)
            },
            render: { value in value.map(DurationText.format) ?? "0" }
        )
    }
}

extension SettingFormat where Value == Bool {
    package static let flag = SettingFormat(
        allowed: "true, false",
        parse: { ["true": true, "false": false][$0] },
        render: { String($0) }
    )
}

extension SettingFormat where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    package static var choice: SettingFormat {
        SettingFormat(
            allowed: Value.allCases.map(\.rawValue).joined(separator: ", "),
            parse: { Value(rawValue: $0) },
            render: { $0.rawValue }
        )
    }
}

extension SettingFormat where Value == ListenAddress {
    package static let listenAddress = SettingFormat(
        allowed:
            "host:port, such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080; port 0 chooses a free one; or a Unix socket such as unix:/run/sluice/gateway.sock",
        parse: { ListenAddress($0) },
        render: { $0.description }
    )
}

extension SettingFormat where Value == ListenAddress? {
    package static let listenAddressOrNone = SettingFormat(
        allowed:
            "host:port, such as 127.0.0.1:9000; a Unix socket such as unix:/run/sluice/object.sock; none for no listener",
        parse: { text in text == "none" ? .some(nil) : ListenAddress(text).map { .some($0) } },
        render: { $0?.description ?? "none" }
    )
}

extension SettingFormat where Value == [PeerRange] {
    package static let peers = SettingFormat(
        allowed:
            "addresses and ranges separated by commas, such as 127.0.0.1, 10.0.0.0/8, 2001:db8::/32; unix: for the clients of Unix sockets",
        isList: true,
        parse: { text in ListText.parse(text, empty: [], { PeerRange($0) }) },
        render: { peers in peers.isEmpty ? nil : peers.map(\.description).joined(separator: ", ") }
    )
}

extension SettingFormat where Value == [CIDR] {
    package static let ranges = SettingFormat(
        allowed: "addresses and ranges separated by commas, such as 127.0.0.1, 10.0.0.0/8, 2001:db8::/32",
        isList: true,
        parse: { text in ListText.parse(text, empty: [], { CIDR($0) }) },
        render: { ranges in ranges.isEmpty ? nil : ranges.map(\.description).joined(separator: ", ") }
    )
}
