import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

/// An upload service over in-memory adapters that can be made to fail.
struct ServiceBench {
    let clock = ManualClock()
    let fuse = Fuse()
    let state: FaultyState
    let storage: FaultyStorage
    let observer = RecordingObserver()
    let limits: UploadLimits
    let services: UploadServices

    /// - Parameters:
    ///   - limits: Of all uploads.
    ///   - takeOverTimeout: `nil` for requests that wait for each other however slow the machine is.
    init(
        limits: UploadLimits = UploadLimits(maximumBytes: 1000, lifetime: 3600),
        takeOverTimeout: Duration? = nil
    ) {
        var limits = limits.patient
        if let takeOverTimeout { limits.takeOverTimeout = takeOverTimeout }
        self.limits = limits
        state = FaultyState(InMemoryState(clock: clock), fuse: fuse)
        storage = FaultyStorage(InMemoryStorage(), fuse: fuse)
        services = UploadServices(state: state, storage: storage, clock: clock, limits: limits, observer: observer)
    }

    /// A new process with the state and storage of the old one.
    func restarted() -> UploadServices {
        fuse.replace()
        return UploadServices(state: state, storage: storage, clock: clock, limits: limits, observer: observer)
    }

    func grant(
        _ id: String = "key_1",
        dialect: String? = nil,
        maximumBytes: Int64? = nil,
        contentTypes: [String] = [],
        isOneTime: Bool = false,
        metadata: [String: String] = [:]
    ) -> Grant {
        Grant(
            id: id,
            subject: "alice",
            dialect: dialect,
            maximumBytes: maximumBytes,
            contentTypes: contentTypes,
            expiresAt: clock.now.addingTimeInterval(600),
            isOneTime: isOneTime,
            metadata: metadata
        )
    }

    /// Creates an upload of `length` bytes and appends its first ones.
    func upload(_ length: Int64, holding bytes: [UInt8] = []) async throws -> UploadID {
        let upload = try await services.uploads.create(NewUpload(dialect: "tus", length: length), under: grant())
        if !bytes.isEmpty { _ = try await append(bytes, to: upload.id, at: 0) }
        return upload.id
    }

    @discardableResult
    func append(_ bytes: [UInt8], to id: UploadID, at offset: Int64) async throws(UploadError) -> Upload {
        try await services.uploads.append(
            to: id,
            at: offset,
            contentLength: Int64(bytes.count),
            expecting: nil,
            from: ArraySource(bytes)
        )
    }

    func append(_ source: ScriptedSource, to id: UploadID, at offset: Int64) async throws(UploadError) -> Upload {
        try await services.uploads.append(
            to: id,
            at: offset,
            contentLength: source.remaining,
            expecting: nil,
            from: source
        )
    }

    func contents(of id: UploadID) async throws -> [UInt8] {
        try await BlobStorageContract.contents(of: id, in: storage)
    }
}

/// The code of the error that `body` throws; `nil` if it succeeds.
func code<Value>(_ body: () async throws -> Value) async -> UploadError.Code? {
    do {
        _ = try await body()
        return nil
    } catch let error as UploadError {
        return error.code
    } catch {
        Issue.record(error)
        return nil
    }
}

/// A gate that opens once.
actor Gate {
    private var isOpen = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func open() {
        isOpen = true
        for waiter in waiting { waiter.resume() }
        waiting = []
    }

    func pass() async {
        if isOpen { return }
        await withCheckedContinuation { waiting.append($0) }
    }
}

extension UploadServices {
    /// Stores a part of the upload as it is recorded now.
    @discardableResult
    func putPart(
        _ number: Int,
        of id: UploadID,
        _ content: ObjectContent,
        minimumSize: Int64
    ) async throws(UploadError) -> PartRecord {
        let (upload, part) = try await parts.recorded(id, withPart: number)
        return try await parts.putPart(number, of: upload, replacing: part, content, minimumSize: minimumSize)
    }
}
