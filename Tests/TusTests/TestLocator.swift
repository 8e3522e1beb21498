import Signing
import Testing
import UploadCore
import UploadModel

/// The locator of all tests, with a known secret.
enum TestLocator {
    static func make() throws -> UploadLocator {
        UploadLocator(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32))))
    }
}
