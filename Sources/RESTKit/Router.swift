package import HTTPWire

/// A method and a path template such as `/v1/uploads/{id}`; a segment in braces matches any one segment.
package struct Route: Sendable {
    package typealias Handler = @Sendable (Request, PathParameters) async -> Response

    package let method: HTTPMethod
    package let template: String
    package let handler: Handler
    /// What its clients speak, unless a response says so.
    package let dialect: Response.Trace.Dialect

    package init(
        _ method: HTTPMethod,
        _ template: String,
        dialect: Response.Trace.Dialect = .management,
        _ handler: @escaping Handler
    ) {
        self.method = method
        self.dialect = dialect
        self.template = template
        self.handler = handler
    }
}

/// The segments that matched names in braces.
package struct PathParameters: Sendable {
    private var values: [(name: String, value: String)]

    package init(_ values: [(name: String, value: String)] = []) { self.values = values }

    /// The decoded segment; empty if the template has no such name, which would be a bug in the route table.
    package subscript(name: String) -> String { values.first { $0.name == name }?.value ?? "" }
}

/// Finds the route of a request.
///
/// Fixed segments take precedence over names in braces.
package struct Router: Sendable {
    package enum Match: Sendable {
        case found(Route, PathParameters)
        /// The path exists, but not with this method.
        case methodNotAllowed(allowed: [HTTPMethod], template: String)
        case notFound
    }

    /// A node in the tree of segments; it refers to other nodes by index.
    private struct Entry: Sendable {
        var fixed: [String: Int] = [:]
        var named: Int?
        var parameterNames: [String] = []
        var routes: [HTTPMethod: Route] = [:]
        var template = ""
    }

    package let routes: [Route]
    private let entries: [Entry]
    /// Templates without names in braces, by their whole path: most requests need no search.
    private let exact: [String: Int]

    package init(_ routes: [Route]) {
        self.routes = routes
        var entries = [Entry()]
        var exact: [String: Int] = [:]
        for route in routes {
            var position = 0
            var names: [String] = []
            for segment in route.template.split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
                if segment.hasPrefix("{"), segment.hasSuffix("}") {
                    names.append(String(segment.dropFirst().dropLast()))
                    if let next = entries[position].named {
                        position = next
                    } else {
                        entries.append(Entry())
                        entries[position].named = entries.count - 1
                        position = entries.count - 1
                    }
                } else if let next = entries[position].fixed[String(segment)] {
                    position = next
                } else {
                    entries.append(Entry())
                    entries[position].fixed[String(segment)] = entries.count - 1
                    position = entries.count - 1
                }
            }
            entries[position].parameterNames = names
            entries[position].routes[route.method] = route
            entries[position].template = route.template
            if names.isEmpty { exact[route.template] = position }
        }
        self.entries = entries
        self.exact = exact
    }

    /// The route of GET also serves HEAD, unless HEAD has a route of its own (RFC 9110 §9.3.2).
    package func match(_ method: HTTPMethod, _ target: RequestTarget) -> Match {
        var values: [String] = []
        guard let position = exact[target.rawPath] ?? find(target.segments[...], from: 0, &values) else {
            return .notFound
        }
        // The entry is not copied for a route that is found: most requests find theirs.
        if let route = entries[position].routes[method] ?? (method == .head ? entries[position].routes[.get] : nil) {
            if values.isEmpty { return .found(route, PathParameters()) }
            return .found(
                route,
                PathParameters(zip(entries[position].parameterNames, values).map { (name: $0, value: $1) })
            )
        }
        let entry = entries[position]
        var allowed = Set(entry.routes.keys)
        if allowed.contains(.get) { allowed.insert(.head) }
        return .methodNotAllowed(allowed: allowed.sorted { $0.rawValue < $1.rawValue }, template: entry.template)
    }

    private func find(_ segments: ArraySlice<String>, from position: Int, _ values: inout [String]) -> Int? {
        guard let segment = segments.first else { return entries[position].routes.isEmpty ? nil : position }
        if let next = entries[position].fixed[segment], let found = find(segments.dropFirst(), from: next, &values) {
            return found
        }
        guard let next = entries[position].named, !segment.isEmpty else { return nil }
        values.append(segment)
        if let found = find(segments.dropFirst(), from: next, &values) { return found }
        values.removeLast()
        return nil
    }
}
