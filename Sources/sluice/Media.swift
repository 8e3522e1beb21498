import Administration
import ArgumentParser

struct Media: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "media",
        abstract: "Lists the media of a running gateway: its complete uploads.",
        usage: "sluice media [--json] [<options> ...] [<settings> ...]",
        discussion: """
            Asks the gateway on this machine, which is found by the settings, or the one at SLUICE_URL. SLUICE_API_KEY is a key with \
            the scope read; without it, the setting adminKey is used. Lists the newest first, and says at the end how many bytes they have.
            """
    )

    @Flag(help: "Print a JSON object on each line, as in the REST API.")
    var json = false

    @OptionGroup var filter: UploadFilter

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        try await UploadFilter.asking(options) { list in
            let found = try await list.uploads(try filter.parameters(state: "completed"), limit: filter.limit)
            if json {
                for one in found { Console.say(one.json) }
                return
            }
            let rows = found.map(\.upload).map { media in
                [
                    media.id, media.dialect, TextTable.bytes(media.offset), media.updatedAt, media.subject ?? "",
                    media.issuer ?? "", media.filename ?? "",
                ]
            }
            Console.say(
                TextTable.text([["ID", "PROTOCOL", "BYTES", "COMPLETED", "SUBJECT", "KEY", "FILENAME"]] + rows)
            )
            Console.say("\(found.count) media, \(TextTable.bytes(found.reduce(0) { $0 + $1.upload.offset }))")
        }
    }
}
