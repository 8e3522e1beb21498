internal import HTTPServer
package import HTTPWire
package import RESTKit
package import UploadModel

/// Requests that a module claims by their head, without a route per method, so that a protocol can refuse wrong methods
/// in its own format.
package struct Claim: Sendable {
    /// What a request must satisfy besides its path.
    package struct Condition: Sendable {
        /// A description, used to compare it with the conditions of other claims.
        package let text: String
        package let holds: @Sendable (RequestHead) -> Bool

        package init(text: String, holds: @escaping @Sendable (RequestHead) -> Bool) {
            self.text = text
            self.holds = holds
        }
    }

    /// The path segments of the root; empty for `/` alone.
    package let root: [String]
    /// The templates of the root and of each number of following segments, for logs and metrics.
    package let templates: [String]
    /// What its clients speak, unless a response says so; `nil` if only responses can say it.
    package let dialect: Response.Trace.Dialect?
    /// Further condition; `nil` claims every request below the root that no other claim takes.
    package let condition: Condition?
    /// The operations, for descriptions of the API.
    package let operations: [(method: HTTPMethod, template: String)]
    package let respond: @Sendable (Request) async -> Response
    /// Whether a response to OPTIONS describes the resource, so that other modules may add to it.
    package let isDescription: @Sendable (Response) -> Bool
    /// The response to a request that a limit refuses before it is handled; `nil` for a problem document.
    package let refuse: (@Sendable (UploadError, Request) -> Response)?

    /// - Parameters:
    ///   - templates: One for the root, such as `/files`, and one for each number of following segments, such as
    ///     `/files/{upload}`.
    ///   - dialect: What its clients speak, unless a response says so.
    ///   - condition: A further condition and its description; `nil` claims what no other claim takes.
    ///   - operations: Methods and templates, for descriptions of the API.
    ///   - isDescription: Whether a response to OPTIONS describes the resource.
    ///   - refuse: The response, in the protocol's form, to a request that a limit refuses; it reads no content. `nil` for a problem
    ///     document.
    ///   - respond: Handles a request.
    package init(
        _ templates: [String],
        dialect: Response.Trace.Dialect? = nil,
        when condition: Condition? = nil,
        operations: [(method: HTTPMethod, template: String)],
        isDescription: @escaping @Sendable (Response) -> Bool = { _ in false },
        refuse: (@Sendable (UploadError, Request) -> Response)? = nil,
        respond: @escaping @Sendable (Request) async -> Response
    ) {
        root = (templates.first ?? "/").split(separator: "/").map(String.init)
        self.templates = templates
        self.dialect = dialect
        self.condition = condition
        self.operations = operations
        self.isDescription = isDescription
        self.refuse = refuse
        self.respond = respond
    }

    /// The path, for messages.
    package var path: String { "/" + root.joined(separator: "/") }

    package func takes(_ head: RequestHead) -> Bool {
        let segments = head.target.segments
        return covers(segments) && (condition?.holds(head) ?? true)
    }

    private func covers(_ segments: [String]) -> Bool {
        guard !root.isEmpty else { return segments.isEmpty || segments == [""] }
        return segments.count >= root.count && segments.count < root.count + templates.count
            && segments.starts(with: root)
    }

    /// The template that matches the path of a request.
    package func template(of head: RequestHead) -> String {
        let further = head.target.segments.count - root.count
        return templates.indices.contains(further) ? templates[further] : path
    }

    /// Whether this claim would hide a route, because it takes all requests there.
    package func hides(_ template: String) -> Bool {
        condition == nil
            && covers(template.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init))
    }
}

/// What all modules of one listener serve.
package struct ClaimTable: Sendable {
    /// Two modules claim the same requests.
    package struct Conflict: Error, CustomStringConvertible {
        package let description: String
    }

    package let router: Router
    /// Every method and path template, including those of claims.
    package let operations: [(method: HTTPMethod, template: String)]
    /// Claims by the first path segment; those with a condition come first.
    private let claims: [String: [Claim]]

    /// - Throws: `Conflict`, which names both modules.
    package init(_ modules: [any GatewayModule]) throws(Conflict) {
        var holders: [String: String] = [:]
        var claims: [(name: String, claim: Claim)] = []
        for module in modules {
            for claim in module.claims {
                try Self.hold("\(claim.path)\(claim.condition.map { " (\($0.text))" } ?? "")", module.name, &holders)
                claims.append((module.name, claim))
            }
        }
        for module in modules {
            for route in module.routes {
                // Names in braces may differ but match the same path.
                let place = route.template.split(separator: "/", omittingEmptySubsequences: false)
                    .map { $0.hasPrefix("{") ? "{}" : $0 }.joined(separator: "/")
                try Self.hold("\(route.method) \(place)", module.name, &holders)
                if let (name, claim) = claims.first(where: { $0.claim.hides(route.template) }) {
                    throw Conflict(
                        description:
                            "the modules \(name) and \(module.name) both claim \(route.template): the first takes all of \(claim.path)"
                    )
                }
            }
        }
        let routes = modules.flatMap(\.routes)
        router = Router(routes)
        operations =
            routes.map { (method: $0.method, template: $0.template) } + claims.flatMap(\.claim.operations)
        self.claims = Dictionary(grouping: claims.map(\.claim)) { $0.root.first ?? "" }
            .mapValues { claims in claims.filter { $0.condition != nil } + claims.filter { $0.condition == nil } }
    }

    private static func hold(
        _ place: String,
        _ name: String,
        _ holders: inout [String: String]
    ) throws(Conflict) {
        if let other = holders.updateValue(name, forKey: place) {
            throw Conflict(description: "the modules \(other) and \(name) both claim \(place)")
        }
    }

    /// The claim that matches a request.
    package func claim(_ head: RequestHead) -> Claim? {
        claims[head.target.segments.first ?? ""]?.first { $0.takes(head) }
    }
}
