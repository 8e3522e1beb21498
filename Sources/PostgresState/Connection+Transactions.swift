internal import CPostgres

#if canImport(Glibc)
internal import Glibc
internal import UploadModel
#endif

// MARK: Transactions

extension Connection {
    static let beginText = "BEGIN"
    static let commitText = "COMMIT"

    /// Begins a transaction with the next statement.
    ///
    /// - Parameter lease: Others cannot take it until the transaction ends; if this node no longer has it, the
    ///   transaction fails with `UploadError.leaseLost`.
    /// - Throws: An error if the connection broke while it was idle; nothing was started then.
    func begin(holding lease: HeldLease? = nil) throws(DatabaseFailure) {
        try checkIdle()
        hasBacklog = false
        events = []
        isInTransaction = true
        send(Self.beginText)
        guard let lease else { return }
        send(
            """
            SELECT \(Self.demand("count(*) = 1")) FROM (
                SELECT FROM upload_lease WHERE upload_id = $1 AND node = $2 AND epoch = $3 FOR SHARE
            ) AS held
            """,
            [lease.id.text, lease.node, lease.epoch],
            refusal: .leaseLost
        )
    }

    /// Commits with the statements that wait, in one round trip; does nothing if that was already done.
    ///
    /// - Throws: An error, also if the transaction may have been committed because the connection was lost.
    func commit() throws(DatabaseFailure) {
        guard isInTransaction else { return }
        let reply = send(Self.commitText)
        try flush()
        guard reply.tag == Self.commitText else {
            throw DatabaseFailure(state: nil, message: "the transaction had failed before", isConnectionLost: false)
        }
        isInTransaction = false
    }

    /// Rolls the transaction back, if one was begun; a connection that fails to do so is no longer usable.
    func rollback() {
        queue = []
        isInTransaction = false
        // Without the connection, the server does it by itself.
        if isSilent || PQtransactionStatus(handle) == PQTRANS_IDLE { return }
        _ = try? execute("ROLLBACK")
    }

    /// Notices a connection that broke while nothing used it, before a transaction is sent as a whole: if its COMMIT
    /// had been sent too, the call could not be repeated.
    private func checkIdle() throws(DatabaseFailure) {
        // A server or proxy that vanished silently is noticed only by asking it.
        if ContinuousClock.now - lastUsed > Self.longestTrust {
            let usual = answerTime
            defer { answerTime = usual }
            // As for a new connection.
            answerTime = target.settings.connectTimeout
            try execute("SELECT 1")
            roundTrips -= 1
        }
        // A connection that was closed is readable, first its last message, then its end.
        for _ in 0..<3 {
            var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            guard poll(&descriptor, 1, 0) > 0 else { return }
            guard PQconsumeInput(handle) == 1, PQstatus(handle) == CONNECTION_OK else {
                isStale = true
                let message = target.cleaned(String(cString: PQerrorMessage(handle)))
                throw DatabaseFailure(state: nil, message: message, isConnectionLost: true)
            }
        }
    }

    /// How long an idle connection is used without asking whether it still works.
    private static let longestTrust = Duration.seconds(5)
}
