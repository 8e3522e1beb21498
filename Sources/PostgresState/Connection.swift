internal import CPostgres
internal import UploadCore

/// One connection to the database.
///
/// Invariant: used by one thread at a time, which took it out of its `ConnectionPool` or has just made it.
final class Connection: @unchecked Sendable {
    private let handle: OpaquePointer
    let target: Target
    /// Names of prepared statements by their text; there are as many texts as there are kinds of calls.
    private var prepared: [String: String] = [:]
    /// What is prepared is of no use any more, or the server is not the one that is wanted.
    private var isStale = false

    /// Connects; blocks for as long as the settings allow.
    ///
    /// - Throws: When the server can not be reached or does not let us in.
    init(to target: Target) throws(DatabaseFailure) {
        let settings = target.settings
        let seconds = max(2, Int64(settings.connectTimeout / .seconds(1)))
        // Of a word that stands twice the last one counts, so the URL may change those before it and not the one after it.
        let words = [
            ("connect_timeout", "\(seconds)"),
            // A server that vanished without a word is given up after half a minute.
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
        // Notices would go to standard error.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        guard PQstatus(handle) == CONNECTION_OK else {
            let message = target.cleaned(String(cString: PQerrorMessage(handle)))
            throw DatabaseFailure(state: nil, message: message, isConnectionLost: true)
        }
        try execute(Self.session(settings))
    }

    deinit { PQfinish(handle) }

    /// What holds for every transaction of the connection, whatever the server, the database or the role has as default.
    private static func session(_ settings: PostgresSettings) -> String {
        // With standbys there are levels above `on`, which are left as they are.
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

    /// The socket, to wait for notifications.
    var socket: Int32 { PQsocket(handle) }

    /// What was told on the channels that this connection listens on; reads what has come, and waits for nothing.
    ///
    /// - Throws: When the connection is lost.
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

    /// Whether another call may use it.
    var isUsable: Bool {
        !isStale && PQstatus(handle) == CONNECTION_OK && PQtransactionStatus(handle) == PQTRANS_IDLE
    }

    // MARK: Transactions

    func begin() throws(DatabaseFailure) { try execute("BEGIN") }

    /// Begins a transaction, and keeps others from taking `lease` until it ends; one way to the server.
    ///
    /// - Returns: Whether the lease is held; always without one.
    func begin(holding lease: HeldLease?) throws(DatabaseFailure) -> Bool {
        guard let lease else {
            try begin()
            return true
        }
        // An id has letters and digits only.
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

    /// - Throws: Also when the transaction may have been committed: when the connection is lost.
    func commit() throws(DatabaseFailure) {
        guard try execute("COMMIT") == "COMMIT" else {
            throw DatabaseFailure(state: nil, message: "the transaction had failed before", isConnectionLost: false)
        }
    }

    /// Undoes the transaction; a connection that can not even do that is not usable any more.
    func rollback() { _ = try? execute("ROLLBACK") }

    // MARK: Statements

    /// Runs statements that have no values and give nothing.
    ///
    /// - Returns: The command of the last one, with its count.
    @discardableResult
    func execute(_ statements: String) throws(DatabaseFailure) -> String {
        let result = PQexec(handle, statements)
        defer { PQclear(result) }
        try check(result)
        return PQcmdStatus(result).map { String(cString: $0) } ?? ""
    }

    /// Runs a statement that is prepared once for each connection.
    ///
    /// - Returns: How many rows it changed.
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
    ///   - statement: With `$1`, `$2` … for the values.
    ///   - values: Values.
    ///   - isPlannedAnew: The statement is planned for these values each time, not once for all: where it depends on them
    ///     which index leaves little to look at.
    /// - Returns: What it gives.
    /// - Throws: What the server says.
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

    /// To be cleared by the caller.
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
        // The detail, which is left out, has values of rows.
        let message =
            PQresultErrorField(result, cpostgres_message).map { String(cString: $0) }
            ?? String(cString: PQerrorMessage(handle))
        // The server ends the connection (57P…), or it is broken. A statement that is not there, or gives other columns than when
        // it was prepared, or a server that became read-only: the next call begins anew.
        let isLost = PQstatus(handle) != CONNECTION_OK || state?.hasPrefix("57P") == true
        if isLost || ["26000", "0A000", "25006"].contains(state) { isStale = true }
        throw DatabaseFailure(state: state, message: target.cleaned(message), isConnectionLost: isLost)
    }

    /// Runs `body` with C strings, `nil` where a text is.
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
