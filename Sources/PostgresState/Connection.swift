internal import CPostgres
internal import UploadModel

/// A connection to the database.
///
/// Invariant: used by one thread at a time, which took it from its `ConnectionPool` or has just created it.
final class Connection: @unchecked Sendable {
    let handle: OpaquePointer
    let target: Target
    /// Statements that were not sent yet; see `send`.
    var queue: [QueuedStatement] = []
    /// Names of prepared statements by their text; there is one text per kind of call.
    var prepared: [String: String] = [:]
    /// Number of names given; a name whose preparation failed is not used again.
    var lastName = 0
    /// Whether prepared statements are invalid, or the server is no longer the right one.
    var isStale = false
    /// Number of times that calls waited for the server, without readings of its clock and looks whether it is there.
    var roundTrips = 0
    var lastUsed = ContinuousClock.now
    /// How long the server may take for the answer to a statement; `nil` for statements without a limit.
    ///
    /// It ends them itself after their limit. So if it is silent for longer, it has stopped, or something that accepts bytes for
    /// it has.
    var answerTime: Duration?
    /// Whether the server took longer; nothing more is expected of this connection.
    var isSilent = false
    /// Whether a transaction was begun and not yet ended.
    var isInTransaction = false
    /// Whether the current transaction has added changes of accounts that wait to be counted.
    var hasBacklog = false
    /// The outcomes of the current transaction's statements that add an event, or leave it out because nothing wants it.
    var events: [Reply] = []
    /// How often the current transaction was begun; from the second time on it expects nothing.
    var attempt = 1
    /// Whether the current transaction may change accounts without limits by rows of their own; otherwise it changes
    /// the row of each account, which stays locked until the commit.
    var mayAppendChanges = false

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
        answerTime = settings.statementTimeout + Self.grace
        // By default, notices are printed to standard error.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        guard PQstatus(handle) == CONNECTION_OK else {
            let message = target.cleaned(String(cString: PQerrorMessage(handle)))
            throw DatabaseFailure(state: nil, message: message, isConnectionLost: true)
        }
        guard PQsetnonblocking(handle, 1) == 0 else {
            let message = target.cleaned(String(cString: PQerrorMessage(handle)))
            throw DatabaseFailure(state: nil, message: message, isConnectionLost: true)
        }
        try execute(Self.session(settings))
    }

    /// What an answer may take beyond the limit of its statement.
    private static let grace = Duration.seconds(5)

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
        !isStale && !isSilent && queue.isEmpty && PQstatus(handle) == CONNECTION_OK
            && PQtransactionStatus(handle) == PQTRANS_IDLE && PQpipelineStatus(handle) == PQ_PIPELINE_OFF
    }

    /// Runs `body` with C strings; a missing text is a null pointer.
    static func withStrings<Result>(
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
