internal import Synchronization
internal import SystemIO
internal import UploadModel

/// Records of open uploads that were created or appended to a moment ago, so that the next append need not read them.
///
/// A record is kept only between two uses of the upload on this node, and only where no other node changes it: whoever gets the
/// lease for something else has it forgotten first (`LeaseTable`, `onUse`), and so has whoever changes a record without the lease.
final class RecentUploads: Sendable {
    private let uploads: RecentTable<UploadID, Upload>
    /// Uploads that a user of a record holds, and whether somebody has changed it meanwhile.
    private let held = Mutex<[UploadID: Bool]>([:])
    private let found = Atomic<Int>(0)
    private let read = Atomic<Int>(0)

    init(_ limits: RecentLimits) {
        uploads = RecentTable(limits)
    }

    var count: Int { uploads.count }

    var lookups: (found: Int, read: Int) { (found.load(ordering: .relaxed), read.load(ordering: .relaxed)) }

    /// What is known of the upload is no longer so.
    func forget(_ id: UploadID) {
        held.withLock { held in
            if held[id] != nil { held[id] = true }
            _ = uploads.take(id)
        }
    }

    /// Keeps a new upload whose id no client has yet.
    func add(_ upload: Upload) {
        if Self.takesAppends(upload), upload.length != 0 { uploads.put(upload.id, upload) }
    }

    /// Takes the record.
    ///
    /// Requires the lease, and that `end` is called before it is released.
    ///
    /// - Returns: With its offset; `nil` if it must be read.
    func begin(_ id: UploadID) -> Upload? {
        let upload = held.withLock { held in
            held[id] = false
            return uploads.take(id)
        }
        if upload == nil {
            read.wrappingAdd(1, ordering: .relaxed)
        } else {
            found.wrappingAdd(1, ordering: .relaxed)
        }
        return upload
    }

    /// The same for who reads the record in any case.
    func hold(_ id: UploadID) {
        held.withLock { held in
            held[id] = false
            _ = uploads.take(id)
        }
    }

    /// Keeps the record again, unless it has changed meanwhile.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - upload: With its offset; `nil` if it must be read again.
    func end(_ id: UploadID, with upload: Upload?) {
        held.withLock { held in
            let hasChanged = held.removeValue(forKey: id) ?? true
            if !hasChanged, let upload, Self.takesAppends(upload) { uploads.put(id, upload) }
        }
    }

    /// Whether bytes are appended to it, without a look at anything but its record and its blob.
    static func takesAppends(_ upload: Upload) -> Bool {
        upload.state == .open && !upload.takesParts && upload.concatenation?.parts == nil
    }
}
