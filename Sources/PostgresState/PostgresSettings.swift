internal import CPostgres

/// How to connect to the database, and how to use it.
package struct PostgresSettings: Sendable {
    /// `postgres://user:password@host:port/database?sslmode=…`, or libpq keywords; contains a secret.
    ///
    /// See https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING.
    package var url: String
    /// Maximum number of open connections, and of concurrent calls; at least 1.
    package var connections: Int
    /// Whether each transaction is on stable storage before its call returns.
    package var isSynchronous: Bool
    /// For each host of the URL, unless the URL sets it; whole seconds, at least 2.
    package var connectTimeout: Duration
    /// How long a statement waits for rows locked by others; beyond it `.unavailable`.
    package var lockTimeout: Duration
    /// How long a statement may take; beyond it `.unavailable`.
    package var statementTimeout: Duration

    package init(
        url: String,
        connections: Int = 8,
        isSynchronous: Bool = true,
        connectTimeout: Duration = .seconds(5),
        lockTimeout: Duration = .seconds(5),
        statementTimeout: Duration = .seconds(30)
    ) {
        self.url = url
        self.connections = connections
        self.isSynchronous = isSynchronous
        self.connectTimeout = connectTimeout
        self.lockTimeout = lockTimeout
        self.statementTimeout = statementTimeout
    }
}

/// A database to connect to; its description contains no secret.
struct Target: Sendable {
    let settings: PostgresSettings
    /// Identifies this node among the others; random at each start.
    let node = Int64.random(in: 1 ... .max)
    /// Host, port and database name.
    let location: String
    private let password: String?

    /// - Throws: An error if the URL cannot be parsed.
    init(_ settings: PostgresSettings) throws(PostgresStateError) {
        self.settings = settings
        if let reason = cpostgres_load() {
            let reason = "libpq cannot be loaded: \(String(cString: reason))."
            throw PostgresStateError(location: "of the settings", reason: reason)
        }
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(settings.url, &message) else {
            // libpq quotes the part that it cannot parse, which may be the password.
            PQfreemem(message)
            throw PostgresStateError(location: "of the settings", reason: "its URL is not a PostgreSQL URL.")
        }
        defer { PQconninfoFree(options) }
        var values: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { values[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        let password = values["password"].flatMap { $0.isEmpty ? nil : $0 }
        let host = values["host"] ?? values["hostaddr"] ?? "localhost"
        let port = values["port"].map { ":" + $0 } ?? ""
        let location = host + port + "/" + (values["dbname"] ?? "")
        // An unencoded slash or at sign in a password ends up here.
        guard !location.contains("@"), port.utf8.allSatisfy(":,0123456789".utf8.contains) else {
            throw PostgresStateError(
                location: "of the settings",
                reason: "its URL has an invalid host, port or database name; percent-encode /, @ and : in the password."
            )
        }
        self.password = password
        self.location = Self.cleaned(location, of: password)
    }

    /// Text of libpq or of the server on a single line, with any occurrence of the password removed.
    func cleaned(_ text: String) -> String {
        let lines = text.split(whereSeparator: \.isNewline).map { $0.drop(while: \.isWhitespace) }
        return Self.cleaned(lines.joined(separator: "; "), of: password)
    }

    private static func cleaned(_ text: String, of password: String?) -> String {
        guard let password else { return text }
        return text.split(separator: password, omittingEmptySubsequences: false).joined(separator: "…")
    }
}

extension Duration {
    /// Whole milliseconds, for the server; at least 1, because 0 means no limit.
    var milliseconds: Int64 { max(1, Int64(self / .milliseconds(1))) }
}
