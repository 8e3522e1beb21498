import SluiceTesting
import Testing
import UploadModel

@testable import S3Storage

@Suite(
    "S3Storage keeps the contract of BlobStorage",
    .enabled(if: RealStore.isThere, "\(RealStore.missing)"),
    .timeLimit(.minutes(10))
)
struct S3ContractTests {
    @Test(arguments: BlobStorageContract.all)
    func contract(_ contract: Contract<any BlobStorage>) async throws {
        try await contract.check(try await RealStore.storage())
    }

    @Test(arguments: PartStorageContract.all(partSize: 5 << 20, minimumSize: 5 << 20))
    func parts(_ contract: Contract<any PartStorage>) async throws {
        try await contract.check(try await RealStore.storage())
    }

    @Test(
        "parts that are too small for the store meet the contract",
        arguments: PartStorageContract.all(partSize: 200_000, minimumSize: 100_000)
    )
    func smallParts(_ contract: Contract<any PartStorage>) async throws {
        try await contract.check(try await RealStore.storage())
    }
}
