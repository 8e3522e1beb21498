internal import Bytes
internal import Foundation
internal import StateRecords
internal import Synchronization
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
internal import UploadModel
#endif

/// A lease granted to this node.
struct HeldLease: Sendable {
    let id: UploadID
    let node: Int64
    let epoch: Int64
}

/// This node as a member of the cluster: the leases that it holds and requests, and its connection for notifications.
///
/// The connection holds an advisory lock, which the server releases at once when the process dies, and sends a
/// heartbeat every two seconds. Its own thread waits for notifications.
final class Node: Sendable {
    private struct Contents {
        var held: [UploadID: Int64] = [:]
        /// Pending requests for leases.
        var claims: [UploadID: LeaseClaim] = [:]
        var isWanted: (@Sendable (UploadID) -> Void)?
        var ring: (@Sendable () -> Void)?
        var clearBacklog: (@Sendable () -> Void)?
        /// Whether all living nodes read `account_change`.
        var appendsChanges = false
        var isJoined = false
        var isClosed = false
    }

    let id: Int64
    private let target: Target
    private let contents = Mutex(Contents())
    /// A byte written here wakes the thread.
    private let wake: (read: OpenFile, write: OpenFile)?

    init(_ target: Target) {
        id = target.node
        self.target = target
        var ends: [Int32] = [-1, -1]
        wake = pipe(&ends) == 0 ? (OpenFile(owning: ends[0]), OpenFile(owning: ends[1])) : nil
    }

    // MARK: Leases

    func lease(of upload: UploadID) -> HeldLease? {
        contents.withLock { contents in
            contents.held[upload].map { HeldLease(id: upload, node: id, epoch: $0) }
        }
    }

    func beginAsking(for upload: UploadID, _ claim: LeaseClaim) {
        contents.withLock { $0.claims[upload] = claim }
    }

    /// - Parameters:
    ///   - upload: The requested upload.
    ///   - epoch: The epoch of the granted lease; `nil` if it was not granted.
    func endAsking(for upload: UploadID, _ epoch: Int64?) {
        contents.withLock { contents in
            contents.claims[upload] = nil
            contents.held[upload] = epoch
        }
    }

    func forget(_ upload: UploadID) {
        contents.withLock { $0.held[upload] = nil }
    }

    func onWanted(_ isWanted: @escaping @Sendable (UploadID) -> Void) {
        contents.withLock { $0.isWanted = isWanted }
    }

    func onEvents(_ ring: @escaping @Sendable () -> Void) {
        contents.withLock { $0.ring = ring }
    }

    /// Registers what is called when rows wait to be numbered or counted, because a node died or failed to do it.
    func onBacklog(_ clear: @escaping @Sendable () -> Void) {
        contents.withLock { $0.clearBacklog = clear }
    }

    /// Whether changes of accounts may be added to `account_change`, as of the last heartbeat.
    var appendsChanges: Bool { contents.withLock { $0.appendsChanges } }

    /// Asks the local holder of an upload to stop, and local writers that wait for it to give up.
    func preempt(_ upload: UploadID) {
        contents.withLock { $0.isWanted }?(upload)
    }

    // MARK: Life

    /// Joins the cluster, and joins again whenever the connection is lost; blocks during the first connection attempt.
    func start() {
        let connection = try? join()
        let thread = Thread { [self] in listen(connection) }
        thread.name = "sluice.node"
        thread.stackSize = 512 * 1024
        thread.start()
    }

    func close() {
        contents.withLock { $0.isClosed = true }
        if let wake { _ = Glibc.write(wake.write.descriptor, [UInt8(0)], 1) }
    }

    /// Whether other nodes can reach this node now.
    var isJoined: Bool { contents.withLock { $0.isJoined } }

    private var isClosed: Bool { contents.withLock { $0.isClosed } }

    private func listen(_ first: Connection?) {
        var connection: Connection? = first
        var failures = 0
        while !isClosed {
            do throws(DatabaseFailure) {
                let current: Connection
                if let connection {
                    current = connection
                } else {
                    current = try join()
                    try reconcile(current)
                }
                connection = nil
                failures = 0
                try serve(current)
            } catch {
                // The thread keeps trying; readiness reports the state.
                contents.withLock { $0.isJoined = false }
                failures += 1
                wait(on: nil, for: .milliseconds(min(2000, 50 << min(failures, 6))) * Double.random(in: 0.5...1))
            }
        }
    }

    private func join() throws(DatabaseFailure) -> Connection {
        let connection = try Connection(to: target)
        // Nothing here needs to wait for the disk: what a crash rolls back is detected by its epoch or sent again.
        try connection.execute("SET synchronous_commit = off")
        _ = try connection.row("SELECT pg_advisory_lock_shared($1) IS NULL", [id])
        let row = try connection.row("SELECT md5(current_schema()) AS schema")
        try connection.execute("LISTEN sluice_node_\(id); LISTEN sluice_events_\(row?.text("schema") ?? "")")
        try beat(connection)
        contents.withLock { $0.isJoined = true }
        return connection
    }

    /// - Returns: Whether the node was still registered.
    @discardableResult
    private func beat(_ connection: Connection) throws(DatabaseFailure) -> Bool {
        let known = connection.send("UPDATE node SET heartbeat_at = clock_timestamp() WHERE id = $1", [id])
        let others = try connection.row(
            """
            SELECT \(Connection.hasUnnumberedEvents)
                    OR (SELECT position FROM account_change ORDER BY kind, name, position LIMIT 1) IS NOT NULL AS has_backlog,
                -- A node that was stopped is back before it is removed, or notices that it was.
                NOT EXISTS (SELECT FROM node WHERE NOT reads_changes) AS all_read_changes
            """
        )
        contents.withLock { $0.appendsChanges = others?.flag("all_read_changes") == true }
        if others?.flag("has_backlog") == true { contents.withLock { $0.clearBacklog }?() }
        if known.count == 1 { return true }
        try connection.run(
            "INSERT INTO node (id, heartbeat_at, reads_changes) VALUES ($1, clock_timestamp(), true)",
            [id]
        )
        return false
    }

    /// Serves the connection until it is closed.
    private func serve(_ connection: Connection) throws(DatabaseFailure) {
        var lastBeat = ContinuousClock.now
        var lastCleaning = ContinuousClock.now
        while !isClosed {
            for notification in try connection.notifications() { try heed(notification, connection) }
            let now = ContinuousClock.now
            if now - lastBeat >= Self.beatInterval {
                let isKnown = try beat(connection)
                // The process was stopped or the network was down: other nodes may have taken its leases.
                if !isKnown || now - lastBeat > Self.beatInterval * 2 { try reconcile(connection) }
                lastBeat = now
                if now - lastCleaning >= Self.cleaningInterval {
                    try clean(connection)
                    lastCleaning = now
                }
                continue
            }
            wait(on: connection.socket, for: Self.beatInterval - (now - lastBeat))
        }
        try connection.run("DELETE FROM node WHERE id = $1", [id])
    }

    /// Waits until the socket is readable or the node is closed.
    private func wait(on socket: Int32?, for duration: Duration) {
        var descriptors = [socket, wake?.read.descriptor].compactMap(\.self).map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        _ = poll(&descriptors, nfds_t(descriptors.count), Int32(clamping: duration.milliseconds))
    }

    // MARK: The others

    private func heed(
        _ notification: (channel: String, payload: String),
        _ connection: Connection
    ) throws(DatabaseFailure) {
        if notification.channel.hasPrefix("sluice_events_") {
            if notification.payload != "\(id)" { contents.withLock { $0.ring }?() }
            return
        }
        let words = notification.payload.split(separator: " ")
        guard words.count == 3, let upload = UploadID(String(words[1])), let epoch = Int64(words[2]) else { return }
        let (held, claim) = contents.withLock { ($0.held[upload], $0.claims[upload]) }
        switch words[0] {
        case "want":
            if let held, held != epoch { return }
            if held != nil || claim != nil { return preempt(upload) }
        case "yours":
            if held == epoch { return }
            if let claim { return claim.signal(.granted(epoch: epoch)) }
        default: return
        }
        // Not known here: its release, or the end of a wait, got lost.
        try connection.release(upload, of: id, epoch)
    }

    /// Reconciles the leases of this node with those in the database: wishes of others may have got lost, too.
    private func reconcile(_ connection: Connection) throws(DatabaseFailure) {
        let before = contents.withLock { $0.held }
        var recorded: [UploadID: Int64] = [:]
        var wanted: Set<UploadID> = []
        let rows = try connection.rows(
            "SELECT upload_id, epoch, waiters <> '{}' AS is_wanted FROM upload_lease WHERE node = $1",
            [id]
        )
        for row in rows {
            guard let upload = row.text("upload_id").flatMap({ UploadID($0) }) else { continue }
            recorded[upload] = row.integer("epoch")
            if row.flag("is_wanted") == true { wanted.insert(upload) }
        }
        let (now, claims, ring) = contents.withLock { ($0.held, $0.claims, $0.ring) }
        for (upload, epoch) in now where recorded[upload] == epoch && wanted.contains(upload) { preempt(upload) }
        for (upload, epoch) in before where recorded[upload] != epoch && now[upload] == epoch { preempt(upload) }
        for (upload, epoch) in recorded where now[upload] != epoch && claims[upload] == nil {
            try connection.release(upload, of: id, epoch)
        }
        for claim in claims.values { claim.signal(.look) }
        ring?()
    }

    /// Removes nodes that died silently, and their leases.
    private func clean(_ connection: Connection) throws(DatabaseFailure) {
        try connection.run(
            """
            DELETE FROM node WHERE id = ANY (ARRAY(
                SELECT id FROM node WHERE heartbeat_at < clock_timestamp() - interval '60 seconds' FOR UPDATE SKIP LOCKED
            ))
            """
        )
        try connection.run(
            """
            DELETE FROM upload_lease WHERE upload_id = ANY (ARRAY(
                SELECT upload_id FROM upload_lease WHERE NOT EXISTS (SELECT FROM node WHERE node.id = upload_lease.node)
                FOR UPDATE SKIP LOCKED
            ))
            """
        )
    }

    private static let beatInterval = Duration.seconds(2)
    private static let cleaningInterval = Duration.seconds(60)
}
