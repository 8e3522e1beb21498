import Foundation
import SluiceTesting
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "Round trips to PostgreSQL",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct RoundTripTests {
    /// - Parameters:
    ///   - state: With one connection.
    ///   - call: Is run several times, with a number; a reading of the server's clock can come before one of them.
    /// - Returns: How often a call waited for the server.
    /// - Throws: The errors of the call.
    private func trips(_ state: PostgresState, of call: (Int) async throws -> Void) async throws -> Int {
        var fewest = Int.max
        for number in 1...3 {
            let before = try await state.read { $0.roundTrips }
            try await call(number)
            fewest = min(fewest, try await state.read { $0.roundTrips } - before)
        }
        return fewest
    }

    private func open() async throws -> PostgresState {
        let state = try await Database().open(connections: 1)
        // Otherwise it would use the same connection.
        state.leaveBacklog()
        return state
    }

    @Test("an upload without limits is created in one round trip, and one with limits in two")
    func creation() async throws {
        let state = try await open()
        defer { state.close() }
        #expect(try await trips(state) { _ in try await state.insert(Samples.upload()) } == 1)
        let grants = try await trips(state) { number in
            let grant = Grant(id: "g\(number)", subject: nil, expiresAt: Samples.start, isOneTime: true)
            let upload = Samples.upload()
            try await state.insert(
                upload,
                consuming: grant,
                under: Samples.limits(),
                recording: .sample(.created, of: upload)
            )
        }
        #expect(grants == 1)
        let limited = try await trips(state) { _ in
            try await state.insert(Samples.upload(), Samples.limits(storedBytes: 1000))
        }
        #expect(limited == 2)
    }

    @Test("a small upload is recorded in one round trip, also as an object; one that replaces an object in two")
    func wholes() async throws {
        let state = try await open()
        defer { state.close() }
        _ = try await state.insert(BucketRecord(name: "bucket", createdAt: Samples.start))
        #expect(try await trips(state) { _ in try await state.insertComplete(Samples.upload()) } == 1)
        let objects = try await trips(state) { number in
            try await state.insertComplete(Samples.upload(object: "k\(number)"))
        }
        #expect(objects == 1)
        let olds = [1, 2, 3].map { Samples.upload(object: "old\($0)") }
        for old in olds { try await state.insertComplete(old) }
        let replacing = try await trips(state) { number in
            let old = olds[number - 1]
            try await state.insertComplete(Samples.upload(object: old.key), replacing: old.id)
        }
        #expect(replacing == 2)
    }

    @Test("the steps of an upload take one or two round trips each, and a HEAD three")
    func steps() async throws {
        let state = try await open()
        defer { state.close() }
        let uploads = (0...3).map { Samples.upload(TimeInterval($0)) }
        for upload in uploads { try await state.insert(upload) }
        func expiry(_ number: Int) async throws {
            try await state.setExpiry(of: uploads[number].id, to: Samples.start, updatedAt: Samples.start)
        }
        #expect(try await trips(state, of: expiry) == 1)
        let head = try await trips(state) { number in
            let id = uploads[number].id
            try await state.acquire(id, LeaseClaim(), until: .now + .seconds(600))
            _ = try await state.upload(id)
            await state.release(id)
        }
        #expect(head == 3)
        // The write is refused in the same round trip if the lease was lost.
        try await state.acquire(uploads[0].id, LeaseClaim(), until: .now + .seconds(600))
        #expect(try await trips(state) { _ in try await expiry(0) } == 1)
        let completion = try await trips(state) { number in
            let done = Samples.completed(uploads[number])
            let isDone = try await state.complete(
                done,
                as: Media(of: done),
                replacing: nil,
                under: Samples.limits(),
                recording: [.sample(.completed, of: done)]
            )
            #expect(isDone)
        }
        #expect(completion == 2)
    }

    @Test("a new part and a change of a blob are recorded in one round trip")
    func parts() async throws {
        let state = try await open()
        defer { state.close() }
        _ = try await state.insert(BucketRecord(name: "bucket", createdAt: Samples.start))
        var upload = Samples.upload(object: "k", takesParts: true)
        upload.attributes = ObjectAttributes()
        try await state.insert(upload)
        let part = try await trips(state) { number in
            let part = PartRecord(number: number, size: 5, md5: [1], crc64: 1, location: "l", storedAt: Samples.start)
            let replaced = try await state.putPart(part, of: upload.id)
            #expect(replaced == nil)
        }
        #expect(part == 1)
        var record = BlobRecordsContract.record()
        try await state.insert(record)
        let blob = try await trips(state) { number in
            record.version = try await state.update(
                record,
                adding: BlobRecordsContract.parts([number]),
                droppingFrom: number
            )
        }
        #expect(blob == 1)
    }

    @Test("an event is recorded in one round trip, and its delivery settled in one")
    func events() async throws {
        let state = try await open()
        defer { state.close() }
        let upload = Samples.upload()
        #expect(try await trips(state) { _ in try await state.record(.sample(.updated, of: upload)) } == 1)
        try await state.numberEvents()
        var due: [EventRecord] = []
        let settling = try await trips(state) { number in
            if number == 1 { due = try await state.claimDeliveries(limit: 1, for: 60) }
            try await state.settle(due[0], as: .retry(after: 60, error: "no"))
        }
        #expect(settling == 1)
        #expect(try await trips(state) { _ in _ = try await state.events(EventQuery(after: 0)) } == 1)
    }

    @Test("of a transaction that is sent as a whole nothing is left if one of its conditions is not met")
    func refusedAsWhole() async throws {
        let state = try await open()
        defer { state.close() }
        let grant = Grant(id: "g", subject: nil, expiresAt: Samples.start, isOneTime: true)
        func create(_ upload: Upload) async throws(UploadError) {
            try await state.insert(
                upload,
                consuming: grant,
                under: Samples.limits(),
                recording: .sample(.created, of: upload)
            )
        }
        try await create(Samples.upload())
        let before = try await state.accounts([Samples.alice])
        let second = Samples.upload(1)
        #expect(await errorCode { () async throws(UploadError) in try await create(second) } == .grantUsed)
        let nowhere = Samples.upload(2, object: "k")
        #expect(await errorCode { () async throws(UploadError) in try await state.insert(nowhere) } == .notFound)
        for upload in [second, nowhere] { #expect(try await state.upload(upload.id) == nil) }
        #expect(try await state.accounts([Samples.alice]) == before)
        #expect(try await state.lastEvent() == 1)
        // The connection is used again.
        try await state.insert(Samples.upload(3))
    }
}
