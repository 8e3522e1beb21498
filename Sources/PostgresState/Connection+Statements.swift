internal import CPostgres
internal import StateRecords

#if canImport(Glibc)
internal import Glibc
internal import UploadModel
#endif

/// The outcome of a statement that was sent together with others; empty until then.
final class Reply {
    fileprivate(set) var rows: [StoredRow] = []
    /// The number of rows changed or returned.
    fileprivate(set) var count = 0
    /// The command that was run; `ROLLBACK` for a COMMIT of a failed transaction.
    fileprivate(set) var tag = ""

    var row: StoredRow? { rows.first }
}

/// A statement that waits to be sent.
struct QueuedStatement {
    let text: String
    let values: [(any Parameter)?]
    let isPlannedAnew: Bool
    let refusal: UploadError?
    let reply: Reply
}

// MARK: Statements

extension Connection {
    /// A condition without which a statement fails.
    ///
    /// It then fails with `DatabaseFailure.unmet`, and nothing after it is run, not even a COMMIT that was already sent.
    static func demand(_ condition: String) -> String { "sluice_demand(\(condition))" }

    /// Adds a statement to those that are sent to the server together, in order, at the next call that needs a result.
    ///
    /// - Parameters:
    ///   - statement: SQL with `$1`, `$2` … for the values; it is prepared once per connection.
    ///   - values: The parameter values.
    ///   - isPlannedAnew: See `rows`.
    ///   - refusal: What the call throws if the statement demands something that is not so; `nil` to run the whole
    ///     transaction again.
    /// - Returns: The outcome, once it is known.
    @discardableResult
    func send(
        _ statement: String,
        _ values: [(any Parameter)?] = [],
        isPlannedAnew: Bool = false,
        refusal: UploadError? = nil
    ) -> Reply {
        let reply = Reply()
        queue.append(
            QueuedStatement(
                text: statement,
                values: values,
                isPlannedAnew: isPlannedAnew,
                refusal: refusal,
                reply: reply
            )
        )
        return reply
    }

    /// Runs a statement, after those that wait, in one round trip.
    ///
    /// - Returns: The number of rows changed.
    @discardableResult
    func run(_ statement: String, _ values: [(any Parameter)?] = []) throws(DatabaseFailure) -> Int {
        let reply = send(statement, values)
        try flush()
        return reply.count
    }

    func row(_ statement: String, _ values: [(any Parameter)?] = []) throws(DatabaseFailure) -> StoredRow? {
        try rows(statement, values).first
    }

    /// Runs a statement, after those that wait, in one round trip.
    ///
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
    ) throws(DatabaseFailure) -> [StoredRow] {
        let reply = send(statement, values, isPlannedAnew: isPlannedAnew)
        try flush()
        return reply.rows
    }

    /// Runs statements that have no parameters and return no rows, after those that wait.
    ///
    /// - Returns: The command tag of the last statement, with its row count.
    @discardableResult
    func execute(_ statements: String) throws(DatabaseFailure) -> String {
        try flush()
        roundTrips += 1
        defer { lastUsed = .now }
        var first = PQsendQuery(handle, statements) == 1 ? nil : failure(of: nil)
        var tag = ""
        while true {
            guard awaitResult() else { throw silence }
            guard let result = PQgetResult(handle) else { break }
            defer { PQclear(result) }
            if let failure = failure(of: result) { first = first ?? failure }
            tag = PQcmdStatus(result).map { String(cString: $0) } ?? ""
        }
        if let first { throw first }
        return tag
    }

    /// Waits until `PQgetResult` does not block: a result is there, or the connection is lost.
    ///
    /// - Returns: `false` if the server was silent for too long; see `answerTime`.
    private func awaitResult() -> Bool {
        let deadline = answerTime.map { ContinuousClock.now + $0 }
        while true {
            // 1 if the socket takes no more; a failure is that of the result, too.
            let isUnsent = PQflush(handle) == 1
            guard isUnsent || PQisBusy(handle) == 1, socket >= 0 else { return true }
            let left = deadline.map { $0 - .now }
            let milliseconds = left.map { $0 > .zero ? Int32(clamping: $0.milliseconds) : 0 } ?? -1
            var descriptor = pollfd(fd: socket, events: Int16(isUnsent ? POLLIN | POLLOUT : POLLIN), revents: 0)
            let count = poll(&descriptor, 1, milliseconds)
            // Whatever it is that is wrong, libpq finds it, too.
            if count < 0, errno != EINTR { return true }
            if count == 0, milliseconds == 0 { return false }
            if count > 0, descriptor.revents != Int16(POLLOUT), PQconsumeInput(handle) == 0 { return true }
        }
    }

    /// Gives the connection up: what was sent may have been done or not.
    private var silence: DatabaseFailure {
        isStale = true
        isSilent = true
        let message = "the server has not answered for \(answerTime ?? .zero)"
        return DatabaseFailure(state: nil, message: message, isConnectionLost: true)
    }

    /// Sends the statements that wait, in libpq's pipeline mode, and reads their results: one round trip.
    ///
    /// The first failure ends it: the server skips what follows.
    ///
    /// - Throws: The first failure. It is repeatable if a transaction began here, and certainly was not committed.
    func flush() throws(DatabaseFailure) {
        if queue.isEmpty { return }
        let batch = queue
        queue = []
        roundTrips += 1
        var expected: [Expected] = []
        var failure: DatabaseFailure?
        var done = 0
        if transmit(batch, &expected) {
            failure = receive(expected, &done)
        } else {
            failure = self.failure(of: nil)
        }
        if PQexitPipelineMode(handle) == 0 { isStale = true }
        lastUsed = .now
        guard var failure else { return }
        if failure.isConnectionLost {
            isStale = true
            // A server that was shut down says so in place of the first result.
            let isUntouched = done == 0 && failure.state == "57P01"
            let begins = batch[0].text == Self.beginText
            failure.isRepeatable = begins && (isUntouched || !batch.contains { $0.text == Self.commitText })
        }
        throw failure
    }

    /// What the server answers to one message of a pipeline.
    private enum Expected {
        case prepared(text: String, name: String)
        case result(QueuedStatement)
    }

    /// - Returns: Whether everything was handed to libpq.
    private func transmit(_ batch: [QueuedStatement], _ expected: inout [Expected]) -> Bool {
        guard PQenterPipelineMode(handle) == 1 else { return false }
        var names: [String: String] = [:]
        for statement in batch {
            let count = Int32(statement.values.count)
            var name: String?
            if !statement.isPlannedAnew {
                name = prepared[statement.text] ?? names[statement.text]
                if name == nil {
                    lastName += 1
                    let new = "s\(lastName)"
                    guard PQsendPrepare(handle, new, statement.text, 0, nil) == 1 else { return false }
                    expected.append(.prepared(text: statement.text, name: new))
                    names[statement.text] = new
                    name = new
                }
            }
            let isSent = Self.withStrings(statement.values.map { $0?.postgresText }) { texts in
                if let name {
                    PQsendQueryPrepared(handle, name, count, texts, nil, nil, 0)
                } else {
                    PQsendQueryParams(handle, statement.text, count, nil, texts, nil, nil, 0)
                }
            }
            guard isSent == 1 else { return false }
            expected.append(.result(statement))
        }
        return PQpipelineSync(handle) == 1
    }

    /// Reads results up to the end of the pipeline, or of the connection.
    ///
    /// - Parameters:
    ///   - expected: What was sent.
    ///   - done: Is set to the number of messages that succeeded.
    /// - Returns: The first failure.
    private func receive(_ expected: [Expected], _ done: inout Int) -> DatabaseFailure? {
        var first: DatabaseFailure?
        // The results of each message end with one null pointer; several in a row are the end of a broken connection.
        var nulls = 0
        while nulls < 3 {
            guard awaitResult() else { return silence }
            guard let result = PQgetResult(handle) else {
                nulls += 1
                continue
            }
            nulls = 0
            defer { PQclear(result) }
            let status = PQresultStatus(result)
            if status == PGRES_PIPELINE_SYNC { return first }
            if first != nil || status == PGRES_PIPELINE_ABORTED { continue }
            if var failure = failure(of: result) {
                if done < expected.count, case .result(let statement) = expected[done] {
                    failure.refusal = failure.isUnmet ? statement.refusal : nil
                }
                first = failure
                continue
            }
            if done < expected.count {
                switch expected[done] {
                case .prepared(let text, let name): prepared[text] = name
                case .result(let statement): fill(statement.reply, from: result)
                }
            }
            done += 1
        }
        return first ?? failure(of: nil)
    }

    private func fill(_ reply: Reply, from result: OpaquePointer) {
        reply.count = PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
        reply.tag = PQcmdStatus(result).map { String(cString: $0) } ?? ""
        let count = PQntuples(result)
        if count == 0 { return }
        let width = PQnfields(result)
        var columns: [String: Int] = [:]
        for column in 0..<width {
            if let name = PQfname(result, column) { columns[String(cString: name)] = Int(column) }
        }
        reply.rows = (0..<count).map { row in
            StoredRow(columns: columns, values: (0..<width).map { Self.value(result, row, $0) })
        }
    }

    private static func value(_ result: OpaquePointer?, _ row: Int32, _ column: Int32) -> StoredCell {
        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column) else { return .null }
        let bytes = UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column)))
        return .written(String(decoding: bytes, as: UTF8.self))
    }

    /// The failure that a result stands for; without a result, that of the connection.
    private func failure(of result: OpaquePointer?) -> DatabaseFailure? {
        if let result {
            let status = PQresultStatus(result)
            if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY { return nil }
        }
        let state = PQresultErrorField(result, cpostgres_sqlstate).map { String(cString: $0) }
        // The detail field is left out, because it contains values of rows.
        let message =
            PQresultErrorField(result, cpostgres_message).map { String(cString: $0) }
            ?? String(cString: PQerrorMessage(handle))
        // The connection is lost if the server ends it (57P…) or it breaks. The next call also needs a new one if a
        // prepared statement is missing or its columns have changed, or if the server became read-only.
        let isLost = result == nil || PQstatus(handle) != CONNECTION_OK || state?.hasPrefix("57P") == true
        if isLost || ["26000", "0A000", "25006"].contains(state) { isStale = true }
        return DatabaseFailure(state: state, message: target.cleaned(message), isConnectionLost: isLost)
    }
}
