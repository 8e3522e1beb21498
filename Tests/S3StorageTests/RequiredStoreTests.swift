import Foundation
import Testing

@Suite("The store that the contract needs", .timeLimit(.minutes(10)))
struct RequiredStoreTests {
    @Test("a missing store is reported, and fails where SLUICE_TEST_REQUIRE is set")
    func isThere() {
        guard !RealStore.isThere else { return }
        let warning = "warning: S3Storage is not tested with a store: \(RealStore.missing)\n"
        FileHandle.standardError.write(Data(warning.utf8))
        let isRequired = ProcessInfo.processInfo.environment["SLUICE_TEST_REQUIRE"]?.isEmpty == false
        #expect(!isRequired, "\(RealStore.missing)")
    }
}
