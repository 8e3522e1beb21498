internal import CPostgres
internal import UploadCore

/// A connection to the database.
///
/// Invariant: used by one thread at a time, which took it from its `ConnectionPool` or has just created it.
final class Connection: @unchecked Sendable {
    private let handle: OpaquePointer
    let target: Target
    /// Names of prepared statements by their text; there is one text per kind of call.
    private var prepared: [String: String] = [:]
    /// Whether prepared statements are invalid, or the server is no longer the right one.
    private var isStale = false

    /// Connects; blocks at most for the configured timeout.
    ///
    /// - Throws: An error if the server cannot be reached or refuses the connection.
    init(to target: Target) throws(DatabaseFailure) {
        let settings = target.settings
        let seconds = max(2, Int64(settings.connectTimeout / .seconds(1)))
        // If a parameter occurs twice, the last one wins: the URL can override those before it, not those after it.
        let words = [
            ("connect_timeout", "\(seconds)"),
            // A server that vanished silently is given up after half a minute.
            ("keepalives_idle", "10"), ("keepalives_interval", "5"), ("keepalives_count", "4"),
            ("tcp_user_timeout", "30000"),
            ("fallback_application_name", "sluice"),
            ("dbname", settings.url),
            ("client_encoding", "UTF8"),
        ]
        let opened = Self.withStrings(words.map(\.0), terminated: true) { names in
            Self.withStrings(words.map(\.1), terminated: true) { PQconnectdbParams(names, $0, 1) }
        }
        guard let handle = opened else {
            throw DatabaseFailure(state: nil, message: "there is no memory for a connection", isConnectionLost: true)
        }
        self.handle = handle
        self.target = target
        // By default, notices are printed to standard error.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        guard PQstatus(handle) == CONNECTION_OK else {
            let message = target.cleaned(String(cString: PQerrorMessage(handle)))
            throw DatabaseFailure(state: nil, message: message, isConnectionLost: true)
        }
        try execute(Self.session(settings))
    }

    deinit { PQfinish(handle) }

    /// Settings for every transaction of the connection, whatever the defaults of the server, the database or the role.
    private static func session(_ settings: PostgresSettings) -> String {
        // With standbys there are levels above `on`, which are kept.
        let durability = settings.isSynchronous ? "CASE setting WHEN 'off' THEN 'on' ELSE setting END" : "'off'"
        return """
            SET statement_timeout = \(settings.statementTimeout.milliseconds);
            SET lock_timeout = \(settings.lockTimeout.milliseconds);
            SET idle_in_transaction_session_timeout = \((settings.statementTimeout * 2).milliseconds);
            SET default_transaction_isolation = 'read committed';
            SET bytea_output = 'hex';
            SET standard_conforming_strings = on;
            SELECT set_config('synchronous_commit', \(durability), false)
                FROM pg_settings WHERE name = 'synchronous_commit';
            """
    }

    /// The socket, used to wait for notifications.
    var socket: Int32 { PQsocket(handle) }

    /// Notifications received on the channels of this connection; reads what has arrived, without waiting.
    ///
    /// - Throws: An error if the connection is lost.
    func notifications() throws(DatabaseFailure) -> [(channel: String, payload: String)] {
        guard PQconsumeInput(handle) == 1, PQstatus(handle) == CONNECTION_OK else {
            let message = target.cleaned(String(cString: PQerrorMessage(handle)))
            throw DatabaseFailure(state: nil, message: message, isConnectionLost: true)
        }
        var found: [(channel: String, payload: String)] = []
        while let notification = PQnotifies(handle) {
            defer { PQfreemem(notification) }
            found.append((String(cString: notification.pointee.relname), String(cString: notification.pointee.extra)))
        }
        return found
    }

    /// Whether the connection can be used for another call.
    var isUsable: Bool {
        !isStale && PQstatus(handle) == CONNECTION_OK && PQtransactionStatus(handle) == PQTRANS_IDLE
    }

    // MARK: Transactions

    func begin() throws(DatabaseFailure) { try execute("BEGIN") }

    /// Begins a transaction and, in the same round trip, prevents others from taking `lease` until it ends.
    ///
    /// - Returns: Whether the lease is held; always `true` without one.
    func begin(holding lease: HeldLease?) throws(DatabaseFailure) -> Bool {
        guard let lease else {
            try begin()
            return true
        }
        // An id consists of letters and digits only.
        let result = PQexec(
            handle,
            """
            BEGIN; SELECT FROM upload_lease
            WHERE upload_id = '\(lease.id.text)' AND node = \(lease.node) AND epoch = \(lease.epoch) FOR SHARE
            """
        )
        defer { PQclear(result) }
        try check(result)
        return PQntuples(result) == 1
    }

    /// - Throws: An error, also if the transaction may have been committed because the connection was lost.
    func commit() throws(DatabaseFailure) {
        guard try execute("COMMIT") == "COMMIT" else {
            throw DatabaseFailure(state: nil, message: "the transaction had failed before", isConnectionLost: false)
        }
    }

    /// Rolls the transaction back; a connection that fails to do so is no longer usable.
    func rollback() { _ = try? execute("ROLLBACK") }

    // MARK: Statements

    /// Runs statements that have no parameters and return no rows.
    ///
    /// - Returns: The command tag of the last statement, with its row count.
    @discardableResult
    func execute(_ statements: String) throws(DatabaseFailure) -> String {
        let result = PQexec(handle, statements)
        defer { PQclear(result) }
        try check(result)
        return PQcmdStatus(result).map { String(cString: $0) } ?? ""
    }

    /// Runs a statement that is prepared once per connection.
    ///
    /// - Returns: The number of rows changed.
    @discardableResult
    func run(_ statement: String, _ values: [(any Parameter)?] = []) throws(DatabaseFailure) -> Int {
        let result = try result(of: statement, values)
        defer { PQclear(result) }
        return PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
    }

    func row(_ statement: String, _ values: [(any Parameter)?] = []) throws(DatabaseFailure) -> Row? {
        try rows(statement, values).first
    }

    /// - Parameters:
    ///   - statement: SQL with `$1`, `$2` … for the values.
    ///   - values: The parameter values.
    ///   - isPlannedAnew: Whether to plan the statement for these values each time instead of once; used where the best
    ///     index depends on the values.
    /// - Returns: The rows.
    /// - Throws: The error of the server.
    func rows(
        _ statement: String,
        _ values: [(any Parameter)?] = [],
        isPlannedAnew: Bool = false
    ) throws(DatabaseFailure) -> [Row] {
        let result = try result(of: statement, values, isPlannedAnew: isPlannedAnew)
        defer { PQclear(result) }
        let width = PQnfields(result)
        var columns: [String: Int] = [:]
        for column in 0..<width {
            if let name = PQfname(result, column) { columns[String(cString: name)] = Int(column) }
        }
        return (0..<PQntuples(result)).map { row in
            Row(columns: columns, values: (0..<width).map { Self.value(result, row, $0) })
        }
    }

    private static func value(_ result: OpaquePointer?, _ row: Int32, _ column: Int32) -> String? {
        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column) else { return nil }
        let bytes = UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column)))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Runs a statement; the caller must clear the result.
    private func result(
        of statement: String,
        _ values: [(any Parameter)?],
        isPlannedAnew: Bool = false
    ) throws(DatabaseFailure) -> OpaquePointer? {
        let name = isPlannedAnew ? nil : try name(of: statement)
        let result = Self.withStrings(values.map { $0?.postgresText }) { texts in
            if let name {
                PQexecPrepared(handle, name, Int32(values.count), texts, nil, nil, 0)
            } else {
                PQexecParams(handle, statement, Int32(values.count), nil, texts, nil, nil, 0)
            }
        }
        do throws(DatabaseFailure) {
            try check(result)
        } catch {
            PQclear(result)
            throw error
        }
        return result
    }

    private func name(of statement: String) throws(DatabaseFailure) -> String {
        if let name = prepared[statement] { return name }
        let name = "s\(prepared.count)"
        let result = PQprepare(handle, name, statement, 0, nil)
        defer { PQclear(result) }
        try check(result)
        prepared[statement] = name
        return name
    }

    private func check(_ result: OpaquePointer?) throws(DatabaseFailure) {
        let status = PQresultStatus(result)
        if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK { return }
        let state = PQresultErrorField(result, cpostgres_sqlstate).map { String(cString: $0) }
        // The detail field is left out, because it contains values of rows.
        let message =
            PQresultErrorField(result, cpostgres_message).map { String(cString: $0) }
            ?? String(cString: PQerrorMessage(handle))
        // The connection is lost if the server ends it (57P…) or it breaks. The next call also needs a new one if a
        // prepared statement is missing or its columns have changed, or if the server became read-only.
        let isLost = PQstatus(handle) != CONNECTION_OK || state?.hasPrefix("57P") == true
        if isLost || ["26000", "0A000", "25006"].contains(state) { isStale = true }
        throw DatabaseFailure(state: state, message: target.cleaned(message), isConnectionLost: isLost)
    }

    /// Runs `body` with C strings; a missing text is a null pointer.
    private static func withStrings<Result>(
        _ texts: [String?],
        terminated: Bool = false,
        _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
    ) -> Result {
        var characters: [CChar] = []
        var starts: [Int?] = []
        for text in texts {
            starts.append(text == nil ? nil : characters.count)
            guard let text else { continue }
            for byte in text.utf8 { characters.append(CChar(bitPattern: byte)) }
            characters.append(0)
        }
        if terminated { starts.append(nil) }
        return characters.withUnsafeBufferPointer { buffer in
            let pointers = starts.map { start in start.flatMap { start in buffer.baseAddress.map { $0 + start } } }
            return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
        }
    }
}
