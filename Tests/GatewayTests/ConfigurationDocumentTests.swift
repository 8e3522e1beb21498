import Foundation
import Gateway
import SettingsKit
import Testing

@Suite("docs/configuration.md", .timeLimit(.minutes(10)))
struct ConfigurationDocumentTests {
    @Test("it holds the table of settings as the program prints it")
    func inStep() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let text = try String(contentsOf: root.appending(path: "docs/configuration.md"), encoding: .utf8)
        #expect(text.contains(GatewaySettings.catalog.markdown()), "run scripts/settings-table")
    }
}
