import Signing
import Testing
import UploadCore

/// The locator of all tests: its secret is known and worth nothing.
enum TestLocator {
    static func make() throws -> UploadLocator {
        UploadLocator(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32))))
    }
}
