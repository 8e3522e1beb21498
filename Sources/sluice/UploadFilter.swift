import Administration
import ArgumentParser
import Foundation
import SettingsKit

/// Which uploads a list has.
struct UploadFilter: ParsableArguments {
    @Option(help: "App user.")
    var subject: String?

    @Option(help: "Id of the API key that made them.")
    var key: String?

    @Option(help: "Protocol, such as tus or s3.")
    var dialect: String?

    @Option(help: "Only those that were begun in this time until now, e.g. 2h.")
    var since: String?

    @Option(help: "Most of them, 1 to 10000.")
    var limit = 100

    func validate() throws {
        guard (1...10_000).contains(limit) else { throw ValidationError("--limit must be 1 to 10000") }
    }

    /// Parameters of `GET /v1/uploads`.
    ///
    /// - Parameter state: States separated by commas; `nil` for all.
    /// - Returns: Names and values.
    /// - Throws: `ValidationError`.
    func parameters(state: String?) throws -> [(name: String, value: String)] {
        var filters = [("state", state), ("subject", subject), ("key", key), ("dialect", dialect)]
            .compactMap { name, value in value.map { (name: name, value: $0) } }
        if let since {
            guard let duration = DurationText.parse(since), duration > .zero else {
                throw ValidationError("--since \(since): must be a positive duration such as 2h")
            }
            let start = Date().addingTimeInterval(-(duration / .seconds(1)))
            filters.append((name: "createdAfter", value: start.formatted(.iso8601)))
        }
        return filters
    }

    /// Calls `body` with the gateway that is to be asked.
    ///
    /// - Parameters:
    ///   - options: The settings by which it is found, if SLUICE_URL does not say where it is.
    ///   - body: Asks it.
    /// - Throws: `CommandFailure` if it cannot be asked; the errors of `body`.
    static func asking(_ options: SettingsOptions, _ body: (UploadList) async throws -> Void) async throws {
        let environment = ProcessInfo.processInfo.environment
        let settings = try options.load().values
        do {
            let list = try UploadList(settings, url: environment["SLUICE_URL"], key: environment["SLUICE_API_KEY"])
            defer { list.close() }
            try await body(list)
        } catch let failure as UploadList.Failure {
            throw CommandFailure(failure.description)
        }
    }
}
