import ArgumentParser
import Gateway

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Starts the gateway.")

    @OptionGroup var options: SettingsOptions

    func run() async throws {
        let loaded = try options.load()
        let gateway: GatewayServer
        do {
            gateway = try await GatewayServer(loaded.values)
        } catch {
            throw ValidationError("\(error)")
        }
        try await gateway.run(greeting: Greeting.text(gateway, loaded))
    }
}

/// What the gateway says on standard output when it is ready.
enum Greeting {
    static func text(_ gateway: GatewayServer, _ loaded: LoadedSettings) -> String {
        var lines: [String] = []
        var key: String?
        switch gateway.firstKey {
        case .created(let secret):
            lines += ["API key: \(secret)", "It has all scopes and is shown only this once."]
            key = secret
        case .preset: key = loaded.adminKeyShellExpression
        case .revokedPreset:
            lines.append(
                "The configured admin key was revoked: use another one, or a key made by `sluice keys create`."
            )
        case .existing: key = "$SLUICE_API_KEY"
        }
        lines.append("listening on \(gateway.localURL)")
        if let url = gateway.objectURL { lines.append("clients of S3 are served at \(url)") }
        if let key {
            lines += [
                "Try:",
                "  curl -sS -X POST -H \"Authorization: Bearer \(key)\" \(gateway.localURL)/v1/tencent/signatures",
            ]
        }
        if let url = gateway.objectURL, let pair = gateway.firstPair {
            lines += [
                "  AWS_ACCESS_KEY_ID=\(pair.accessKeyID) AWS_SECRET_ACCESS_KEY=\(pair.secretAccessKey) \\",
                "    aws --region \(loaded.values.object.region) --endpoint-url \(url) s3 cp FILE "
                    + "s3://\(loaded.values.object.buckets.first ?? "BUCKET")/FILE",
            ]
        }
        return lines.joined(separator: "\n")
    }
}
