internal import Bytes
internal import HTTPWire

/// The query parameters of a request; each may occur once.
struct ObjectParameters {
    private let items: QueryItems

    /// - Throws: `InvalidURI`.
    init(_ target: RequestTarget) throws(ObjectError) {
        do throws(QueryItems.Failure) {
            items = try target.queryItems()
        } catch {
            throw ObjectError(unreadable: error)
        }
    }

    var names: Set<String> { Set(items.items.map(\.name)) }

    /// Names of parameters without a value.
    var bareNames: Set<String> { Set(items.items.lazy.filter(\.value.isEmpty).map(\.name)) }

    func contains(_ name: String) -> Bool { items.items.contains { $0.name.isExactly(name) } }

    /// - Throws: `InvalidArgument` if it occurs more than once.
    func text(_ name: String) throws(ObjectError) -> String? {
        let values = items.all(name)
        guard values.count <= 1 else { throw .argument(name, nil, "The parameter \(name) must occur once.") }
        return values.first
    }

    /// The value of a parameter; an empty one counts as absent.
    func nonEmpty(_ name: String) throws(ObjectError) -> String? {
        try text(name).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// - Throws: `InvalidArgument` if it is not an integer in the range, or occurs more than once.
    func number(_ name: String, in range: ClosedRange<Int>, _ message: String) throws(ObjectError) -> Int? {
        guard let text = try nonEmpty(name) else { return nil }
        guard let number = Self.number(text), range.contains(number) else { throw .argument(name, text, message) }
        return number
    }

    /// The page size: the requested number, at most 1000; 1000 by default.
    func pageSize(_ name: String) throws(ObjectError) -> Int {
        let text = "Argument \(name) must be an integer between 0 and 2147483647"
        return min(try number(name, in: 0...2_147_483_647, text) ?? Self.maximumPage, Self.maximumPage)
    }

    /// Whether keys are to be URL-encoded.
    func encodesURL() throws(ObjectError) -> Bool {
        guard let text = try nonEmpty("encoding-type") else { return false }
        guard text == "url" else {
            throw .argument("encoding-type", text, "Invalid Encoding Method specified in Request")
        }
        return true
    }

    static let maximumPage = 1000

    /// An unsigned decimal integer; `nil` for anything else or on overflow.
    static func number(_ text: some StringProtocol) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        return Int(text)
    }
}

extension ObjectError {
    /// `InvalidURI`, for a malformed query.
    init(unreadable failure: QueryItems.Failure) {
        self.init(.invalidURI, "The URI cannot be parsed: \(failure.reason).")
    }
}
