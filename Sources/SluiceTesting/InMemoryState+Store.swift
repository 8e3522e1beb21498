internal import Synchronization
package import UploadModel

extension InMemoryState: StoreMarks {
    package func storeMark() async throws(UploadError) -> StoreMark? { tables.withLock { $0.mark } }

    package func ensureStoreMark(_ mark: StoreMark) async throws(UploadError) -> StoreMark {
        tables.withLock { tables in
            let recorded = tables.mark ?? mark
            tables.mark = recorded
            return recorded
        }
    }

    package func advanceStoreMark() async throws(UploadError) -> StoreMark {
        let mark = tables.withLock { tables in
            tables.mark?.epoch += 1
            return tables.mark
        }
        guard let mark else { throw UploadError(.storageFailure, "The state has no mark of its storage.") }
        return mark
    }

    package func replaceStoreMark(_ mark: StoreMark) async throws(UploadError) {
        tables.withLock { tables in
            tables.mark = mark
            tables.isSweepApproved = true
        }
    }

    package func takeSweepApproval() async throws(UploadError) -> Bool {
        tables.withLock { tables in
            defer { tables.isSweepApproved = false }
            return tables.isSweepApproved
        }
    }
}
