internal import Bytes
internal import HTTPWire

/// The members of a call, from JSON or a form.
///
/// In forms, dots separate the names of nested members (`privacy.view=nobody`). The type of a form can be text/plain or
/// missing (protocol notes §3.2). Unknown members are ignored, because SDKs also send options of their own.
struct VimeoBody: Equatable {
    private(set) var members: JSONMembers
    /// What is wrong with members that were read, in order.
    private(set) var problems: [VimeoFailure.Parameter] = []

    init(_ members: JSONMembers = [:]) { self.members = members }

    /// - Parameters:
    ///   - request: Its content is read, up to `limit` bytes.
    ///   - limit: Bytes.
    /// - Throws: `VimeoError` 2205, or 413.
    init(of request: Request, limit: Int) async throws(VimeoError) {
        let content: [UInt8]
        do throws(SourceFailure) {
            content = try await request.body.collect(limit: limit)
        } catch {
            if case .tooLarge = error {
                throw VimeoError(413, 2205, "The request is too large.", "A body may have \(limit) bytes.")
            }
            throw VimeoError.refused(.malformed("The body did not arrive: \(error)."))
        }
        try self.init(content, type: request.head.fields["Content-Type"].flatMap { MediaType($0)?.essence })
    }

    init(_ content: [UInt8], type: String?) throws(VimeoError) {
        let first = content.first { !" \t\r\n".utf8.contains($0) }
        guard let first else {
            self.init()
            return
        }
        let isJSON = type?.hasSuffix("json") ?? false || first == UInt8(ascii: "{")
        if isJSON { try self.init(json: content) } else { try self.init(form: content) }
    }

    private init(json: [UInt8]) throws(VimeoError) {
        if let excess = JSONLimits().excess(in: json) {
            throw VimeoError.refused(.malformed("The body is too deep: \(excess) are allowed."))
        }
        guard let members = JSONValue(json: json)?.members else {
            throw VimeoError.refused(.malformed("The body must be one JSON object, or a form."))
        }
        // A browser or a proxy may read another of two equal names.
        if let name = JSONNames.repeated(in: json)?.first {
            throw VimeoError.refused(.malformed("The member \(name) occurs twice."))
        }
        self.init(members)
    }

    private init(form: [UInt8]) throws(VimeoError) {
        guard let text = String(clientText: form) else {
            throw VimeoError.refused(.malformed("The body is not UTF-8."))
        }
        let items: QueryItems
        do throws(QueryItems.Failure) {
            items = try QueryItems(text)
        } catch {
            throw VimeoError.refused(.malformed("The body is neither JSON nor a form: \(error.reason)."))
        }
        guard items.count <= 256 else { throw VimeoError.refused(.malformed("The form has too many fields.")) }
        var members: JSONMembers = [:]
        for item in items.items {
            let path = item.name.split(separator: ".", omittingEmptySubsequences: false).prefix(6).map(String.init)
            guard let added = Self.adding(.string(item.value), at: path[...], to: members) else {
                throw VimeoError.refused(.malformed("The member \(item.name.first(scalars: 64)) occurs twice."))
            }
            members = added
        }
        self.init(members)
    }

    /// - Returns: `nil` if there is a value at the path, above it or below it: as in JSON, no member has two values.
    private static func adding(_ value: JSONValue, at path: ArraySlice<String>, to members: JSONMembers)
        -> JSONMembers?
    {
        guard let name = path.first else { return members }
        var members = members
        switch (members[name], path.count) {
        case (nil, 1): members[name] = value
        case (nil, _): members[name] = adding(value, at: path.dropFirst(), to: [:]).map { .object($0) }
        case (.object(let inner)?, 2...):
            guard let added = adding(value, at: path.dropFirst(), to: inner) else { return nil }
            members[name] = .object(added)
        default: return nil
        }
        return members
    }

    // MARK: Members

    /// The value at a path with dots; `nil` if it is missing or `null`.
    subscript(path: String) -> JSONValue? {
        var value = JSONValue.object(members)
        for name in path.split(separator: ".") {
            guard case .object(let members) = value, let next = members[String(name)] else { return nil }
            value = next
        }
        return value == .null ? nil : value
    }

    /// Whether the member is there, even as `null`.
    func has(_ name: String) -> Bool { members[name] != nil }

    mutating func reject(_ field: String, _ message: String, _ code: Int = 2204) {
        problems.append(VimeoFailure.Parameter(field: field, code: code, message: message))
    }

    /// - Throws: `VimeoError` 2204 with everything that was wrong.
    func finish() throws(VimeoError) {
        if !problems.isEmpty { throw VimeoError.refused(.invalid(problems)) }
    }

    /// A text of at most `limit` characters, counted as Unicode scalars.
    mutating func text(_ path: String, atMost limit: Int, _ code: Int = 2204) -> String? {
        switch self[path] {
        case nil: return nil
        case .string(let text)?:
            guard text.hasScalars(atMost: limit) else {
                reject(path, "must have at most \(limit) characters", code)
                return nil
            }
            guard !text.utf8.contains(0) else {
                reject(path, "must not contain U+0000", code)
                return nil
            }
            return text
        default:
            reject(path, "must be a text", code)
            return nil
        }
    }

    /// One of several texts.
    mutating func choice(_ path: String, of values: [String], _ code: Int = 2204) -> String? {
        guard let text = text(path, atMost: 64, code) else { return nil }
        guard values.contains(text) else {
            reject(path, "must be one of: \(values.joined(separator: ", "))", code)
            return nil
        }
        return text
    }

    /// `true`, `"true"`, `1` and so on.
    mutating func bool(_ path: String, _ code: Int = 2204) -> Bool? {
        switch self[path] {
        case nil: return nil
        case .bool(let value)?: return value
        case .string("true")?, .string("1")?, .integer(1)?: return true
        case .string("false")?, .string("0")?, .string("")?, .integer(0)?: return false
        default:
            reject(path, "must be true or false", code)
            return nil
        }
    }

    /// Bytes: a number, or a text with one, of which a fraction of zeros may follow.
    mutating func size(_ path: String) -> Int64? {
        let number: Int64?
        switch self[path] {
        case nil: return nil
        case .integer(let value)?: number = value
        case .number(let value)?: number = Int64(exactly: value)
        case .string(let text)?: number = Self.number(text)
        default: number = nil
        }
        guard let number, number >= 0 else {
            reject(path, "must be a number of bytes", 2254)
            return nil
        }
        return number
    }

    private static func number(_ text: String) -> Int64? {
        let pieces = text.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(pieces.count), !pieces[0].isEmpty,
            pieces[0].utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        if pieces.count == 2, pieces[1].isEmpty || !pieces[1].utf8.allSatisfy({ $0 == 0x30 }) { return nil }
        return Int64(pieces[0])
    }
}
