import Administration
import ArgumentParser
import Foundation
import SettingsKit

struct Uploads: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uploads",
        abstract: "Lists the uploads of a running gateway, or follows those in progress.",
        usage: "sluice uploads [--follow] [--json] [<options> ...] [<settings> ...]",
        discussion: """
            Asks the gateway on this machine, which is found by the settings, or the one at SLUICE_URL. SLUICE_API_KEY is a key with \
            the scope read; without it, the setting adminKey is used. Lists the newest first; `sluice media` lists those that are complete. \
            With --follow, the fastest come first, then those that no byte has reached for the longest time.
            """
    )

    @Flag(help: "Show uploads in progress again and again, with their rates, until interrupted.")
    var follow = false

    @Flag(help: "Print a JSON object on each line, as in the REST API.")
    var json = false

    @Option(help: "A state: open, completed, terminated, expired; several separated by commas. Default: all.")
    var state: String?

    @OptionGroup var filter: UploadFilter

    @Option(help: "Seconds between two looks, with --follow.")
    var every = 2

    @Option(help: "Number of looks, with --follow. Default: until interrupted.")
    var looks: Int?

    @OptionGroup var options: SettingsOptions

    func validate() throws {
        guard (1...3600).contains(every) else { throw ValidationError("--every must be 1 to 3600") }
        guard looks ?? 1 > 0 else { throw ValidationError("--looks must be positive") }
        guard !follow || !json else { throw ValidationError("--follow and --json exclude each other; use /v1/events") }
    }

    func run() async throws {
        try await UploadFilter.asking(options) { list in
            if follow { return try await follow(list) }
            let found = try await list.uploads(try filter.parameters(state: state), limit: filter.limit)
            if json {
                for upload in found { Console.say(upload.json) }
            } else {
                Console.say(Self.table(found.map { Self.cells($0.upload) }))
            }
        }
    }

    private func follow(_ list: UploadList) async throws {
        let isTerminal = isatty(STDOUT_FILENO) == 1
        var progress = UploadProgress()
        var look = 0
        while true {
            let uploads = try await list.uploads(try filter.parameters(state: state ?? "open"), limit: filter.limit)
                .map(\.upload)
            let rows = progress.look(at: uploads, .now).map { row in
                let rate = row.rate.map { TextTable.bytes($0) + "/s" } ?? ""
                return Self.cells(row.upload, rate, "\(Int(row.idle / .seconds(1)))s")
            }
            // Clears the screen, or separates one look from the next.
            print(isTerminal ? "\u{1B}[H\u{1B}[2J" : look == 0 ? "" : "\n", terminator: "")
            Console.say(Self.table(rows, isFollowing: true))
            look += 1
            if look == looks { return }
            try await Task.sleep(for: .seconds(every))
        }
    }

    private static func cells(_ upload: ListedUpload, _ rate: String? = nil, _ idle: String? = nil) -> [String] {
        let total = upload.length.map { TextTable.bytes($0) } ?? "?"
        let share = upload.length.map { $0 > 0 ? "\(Int(Double(upload.offset) / Double($0) * 100))%" : "100%" } ?? ""
        return [upload.id, upload.state, upload.dialect, "\(TextTable.bytes(upload.offset))/\(total)", share]
            + [rate, idle].compactMap { $0 }
            + [upload.createdAt, upload.subject ?? "", upload.issuer ?? "", upload.filename ?? ""]
    }

    private static func table(_ rows: [[String]], isFollowing: Bool = false) -> String {
        let head =
            ["ID", "STATE", "PROTOCOL", "BYTES", "DONE"] + (isFollowing ? ["RATE", "IDLE"] : [])
            + ["BEGUN", "SUBJECT", "KEY", "FILENAME"]
        return TextTable.text([head] + rows)
    }
}
