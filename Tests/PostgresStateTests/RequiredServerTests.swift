import Foundation
import Testing

@Suite("The PostgreSQL server that the contract needs", .timeLimit(.minutes(10)))
struct RequiredServerTests {
    @Test("a missing PostgreSQL is reported, and fails where SLUICE_TEST_REQUIRE is set")
    func isThere() {
        guard !PostgresServer.isAvailable else { return }
        let warning = "warning: PostgresState is not tested: \(PostgresServer.missing)\n"
        FileHandle.standardError.write(Data(warning.utf8))
        let isRequired = ProcessInfo.processInfo.environment["SLUICE_TEST_REQUIRE"]?.isEmpty == false
        #expect(!isRequired, "\(PostgresServer.missing)")
    }
}
