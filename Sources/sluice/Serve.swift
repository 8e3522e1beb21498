internal import Administration
import ArgumentParser
import Gateway
internal import GatewayKit
internal import ObjectGateway
import SettingsKit

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve", abstract: "Starts the gateway.")

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        let loaded = try options.load()
        ProcessSetup.handleSignalsOfTheStart()
        let gateway: GatewayServer
        do {
            gateway = try await GatewayServer(loaded.values)
        } catch {
            throw CommandFailure("\(error)")
        }
        let (flags, file) = (options.flags, options.config)
        try await gateway.run(greeting: Greeting.text(gateway, loaded)) { () throws(SettingsProblems) in
            try SettingsOptions.reload(flags: flags, file: file)
        }
    }
}

/// What the gateway prints on standard output when it is ready.
enum Greeting {
    static func text(_ gateway: GatewayServer, _ loaded: LoadedSettings) -> String {
        var lines: [String] = []
        var key: String?
        switch gateway.firstKey {
        case .created(let secret):
            lines += ["API key: \(secret)", "It has all scopes and is not shown again."]
            key = secret
        case .preset: key = loaded.adminKeyShellExpression
        case .revokedPreset:
            lines.append(
                "The configured admin key was revoked: use another key, or create one with `sluice keys create`."
            )
        case .existing: key = "$SLUICE_API_KEY"
        }
        lines.append("listening on \(gateway.listenURL)")
        if let url = gateway.objectURL { lines.append("the object endpoint for S3 clients is at \(url)") }
        if let key {
            let authorization = "-H \"Authorization: Bearer \(key)\""
            let address = address(gateway, loaded)
            lines += [
                "Upload a file:",
                "  echo Hello | curl -sS -T - \(authorization) \(address)/v1/media/hello.txt",
                "Mint a signature for an SDK, here Tencent's:",
                "  curl -sS -X POST \(authorization) \(address)/v1/tencent/signatures",
            ]
        }
        if let url = gateway.objectURL, loaded.values.object.listen?.unixPath == nil, let pair = gateway.firstPair {
            lines += [
                "Upload with an S3 client:",
                "  AWS_ACCESS_KEY_ID=\(pair.accessKeyID) AWS_SECRET_ACCESS_KEY=\(pair.secretAccessKey) \\",
                "    aws --region \(loaded.values.object.region) --endpoint-url \(url) s3 cp FILE "
                    + "s3://\(loaded.values.object.buckets.first ?? "BUCKET")/FILE",
            ]
        }
        return lines.joined(separator: "\n")
    }

    /// Where curl finds it.
    private static func address(_ gateway: GatewayServer, _ loaded: LoadedSettings) -> String {
        guard let path = loaded.values.general.gateway.listen.unixPath else { return gateway.localURL }
        let scheme = loaded.values.servesTLS ? "https" : "http"
        return "--unix-socket \(path) \(scheme)://localhost\(gateway.basePath)"
    }
}
