import SluiceTesting
import SystemIO
import Testing
import Transport
import UploadModel

@testable import DiskStorage

@Suite("Disk storage meets the contract of blob storages", .timeLimit(.minutes(10)))
struct DiskStorageContractTests {
    @Test("with every durability", arguments: BlobStorageContract.all, Durability.allCases)
    func contract(_ contract: Contract<any BlobStorage>, durability: Durability) async throws {
        let bench = try DiskBench(durability: durability)
        try await contract.check(bench.storage)
        #expect(try bench.markers() == [])
    }

    @Test("with files that are kept open", arguments: BlobStorageContract.all, Durability.allCases)
    func keptOpen(_ contract: Contract<any BlobStorage>, durability: Durability) async throws {
        let bench = try DiskBench(durability: durability, recent: RecentLimits(age: .seconds(600)))
        try await contract.check(bench.storage)
        #expect(try bench.markers() == [])
    }

    @Test("whole parts", arguments: PartStorageContract.all(isWhole: true), Durability.allCases)
    func wholeParts(contract: Contract<any PartStorage>, durability: Durability) async throws {
        let bench = try DiskBench(durability: durability)
        try await contract.check(bench.storage)
        #expect(try await bench.closesAllFiles())
    }

    @Test("parts, with every durability", arguments: PartStorageContract.all(), Durability.allCases)
    func parts(_ contract: Contract<any PartStorage>, durability: Durability) async throws {
        let bench = try DiskBench(durability: durability)
        try await contract.check(bench.storage)
        #expect(try await bench.closesAllFiles())
    }
}
