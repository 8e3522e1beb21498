import SluiceTesting
import Testing
import UploadModel

@Suite("The in-memory fakes meet the contracts of their ports", .timeLimit(.minutes(10)))
struct InMemoryContractTests {
    @Test("in-memory state", arguments: StateStoreContract.all)
    func state(_ contract: Contract<any StateStore>) async throws {
        try await contract.check(InMemoryState())
    }

    @Test("in-memory storage", arguments: BlobStorageContract.all)
    func storage(_ contract: Contract<any BlobStorage>) async throws {
        try await contract.check(InMemoryStorage())
    }

    @Test("parts in memory", arguments: PartStorageContract.all())
    func parts(_ contract: Contract<any PartStorage>) async throws {
        try await contract.check(InMemoryStorage())
    }

    @Test("in-memory records of blobs", arguments: BlobRecordsContract.all)
    func blobs(_ contract: Contract<any BlobRecords>) async throws {
        try await contract.check(InMemoryBlobRecords())
    }

    @Test("marks in memory", arguments: StoreMarksContract.all)
    func marks(_ contract: Contract<any StoreMarks>) async throws {
        try await contract.check(InMemoryState())
    }
}
