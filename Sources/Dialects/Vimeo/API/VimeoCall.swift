internal import Bytes
internal import HTTPWire
internal import RESTKit
internal import UploadModel

/// A call of a user, with what every answer needs.
struct VimeoCall {
    var method: HTTPMethod
    var request: Request
    var caller: VimeoCaller
    var user: VimeoUser
    var query: QueryItems
    var fields: VimeoFields
    var documents: VimeoDocuments

    /// A document of a kind such as `video`, with the members that the client asked for.
    func response(_ document: JSONValue, _ kind: String, _ status: Status = 200) -> Response {
        VimeoResponse.document(fields.applied(to: document), kind, status)
    }

    // MARK: Pages (protocol notes §3.2)

    /// What `page` and `per_page` ask for.
    struct Page {
        let number: Int
        let size: Int

        /// The elements of this page.
        func part<Element>(of all: [Element]) -> ArraySlice<Element> {
            let start = min(all.count, (number - 1) * size)
            return all[start..<min(all.count, start + size)]
        }
    }

    /// - Throws: `VimeoError` 2204.
    func page() throws(VimeoError) -> Page {
        Page(number: try number("page", 1, 1...1_000_000), size: try number("per_page", 25, 1...100))
    }

    /// A page of a list.
    ///
    /// - Parameters:
    ///   - page: Which one.
    ///   - total: Number of elements of the whole list.
    ///   - elements: Those of the page.
    /// - Returns: The response.
    func response(_ page: Page, of total: Int, _ elements: [JSONValue]) -> Response {
        let pages = max(1, total / page.size + (total % page.size > 0 ? 1 : 0))
        // What else the client asked for stays, such as `fields`.
        let others = (request.head.target.rawQuery ?? "").split(separator: "&").filter { item in
            item.prefix { $0 != "=" } != "page" && item.prefix { $0 != "=" } != "per_page"
        }
        func link(_ number: Int) -> JSONValue {
            let items = ["page=\(number)", "per_page=\(page.size)"] + others.map(String.init)
            return .string("\(request.head.target.rawPath)?\(items.joined(separator: "&"))")
        }
        func neighbour(_ number: Int) -> JSONValue { (1...pages).contains(number) ? link(number) : .null }
        let document = JSONValue.object([
            "total": .integer(Int64(total)), "page": .integer(Int64(page.number)),
            "per_page": .integer(Int64(page.size)),
            "paging": .object([
                "next": neighbour(page.number + 1), "previous": neighbour(page.number - 1), "first": link(1),
                "last": link(pages),
            ]),
            "data": .array(elements.map(fields.applied(to:))),
        ])
        return VimeoResponse.document(document, "video")
    }

    private func number(_ name: String, _ standard: Int, _ range: ClosedRange<Int>) throws(VimeoError) -> Int {
        guard let text = query.first(name) else { return standard }
        guard let number = Int(text), range.contains(number) else {
            throw VimeoError.refused(.invalid(name, "must be a number from \(range.lowerBound) to \(range.upperBound)"))
        }
        return number
    }
}
