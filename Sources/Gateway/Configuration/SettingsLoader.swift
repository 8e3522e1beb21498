/// Puts the configuration together: defaults, then the file, then the environment, then flags; the last one wins.
package enum SettingsLoader {
    /// Reads, checks and combines everything.
    ///
    /// A value that is not allowed is a problem even where a later one would win.
    ///
    /// - Parameters:
    ///   - overrides: Values by flag, with or without its dashes; for a secret, the path of a file that holds it.
    ///   - environment: All variables; those that do not begin with `SLUICE_` are ignored.
    ///   - file: Path of the YAML file; without it the one that `SLUICE_CONFIG` names, if any.
    /// - Returns: The values, and where each comes from.
    /// - Throws: `SettingsProblems` with everything that is wrong.
    package static func load(
        arguments overrides: [String: String] = [:],
        environment: [String: String] = [:],
        file: String? = nil
    ) throws(SettingsProblems) -> LoadedSettings {
        var input = SettingsInput()
        if let path = file ?? environment[SettingsEnvironment.fileVariable] {
            SettingsFile.read(path, into: &input)
        }
        SettingsEnvironment.read(environment, into: &input)
        SettingsArguments.read(overrides, into: &input)

        var settings = Settings()
        var sources: [String: SettingSource] = [:]
        var problems = input.problems
        for given in input.given {
            let setting = given.setting
            if setting.read(given.text, &settings) {
                sources[setting.key] = given.source
            } else {
                let value = setting.isSecret ? SettingsProblem.redacted : given.text
                let message =
                    given.text.isEmpty ? "is empty; allowed: \(setting.allowed)" : "allowed: \(setting.allowed)"
                problems.append(
                    SettingsProblem(key: setting.key, source: given.source, value: value, message: message)
                )
            }
        }
        let wrong = Set(problems.map(\.key))
        problems += SettingsRules.check(settings, sources: sources).filter { !wrong.contains($0.key) }
        guard problems.isEmpty else { throw SettingsProblems(problems: problems) }
        return LoadedSettings(values: settings, sources: sources)
    }
}

/// What settings demand of each other.
enum SettingsRules {
    static func check(_ settings: Settings, sources: [String: SettingSource]) -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        func demand(_ isRight: Bool, _ key: String, because other: String, _ message: String) {
            guard !isRight else { return }
            let source = sources[other] ?? sources[key] ?? .standard
            problems.append(SettingsProblem(key: key, source: source, message: message))
        }
        let pairs = [
            ("tls.certificate", settings.tls.certificate != nil, "tls.key", settings.tls.key != nil),
            (
                "tencent.secretId", settings.tencent.secretID != nil, "tencent.secretKey",
                settings.tencent.secretKey != nil
            ),
            (
                "aws.accessKeyId", settings.aws.accessKeyID != nil, "aws.secretAccessKey",
                settings.aws.secretAccessKey != nil
            ),
            (
                "aliyun.accessKeyId", settings.aliyun.accessKeyID != nil, "aliyun.accessKeySecret",
                settings.aliyun.accessKeySecret != nil
            ),
            (
                "identity.issuer", settings.identity.issuer != nil, "identity.audience",
                !settings.identity.audiences.isEmpty
            ),
            (
                "s3.accessKeyId", settings.s3.accessKeyID != nil, "s3.secretAccessKey",
                settings.s3.secretAccessKey != nil
            ),
        ]
        for (first, hasFirst, second, hasSecond) in pairs {
            demand(hasFirst || !hasSecond, first, because: second, "must be set too, because \(second) is")
            demand(hasSecond || !hasFirst, second, because: first, "must be set too, because \(first) is")
        }
        if settings.tencent.mode == .direct, settings.tencent.secretID == nil, settings.tencent.secretKey == nil {
            for key in ["tencent.secretId", "tencent.secretKey"] {
                demand(false, key, because: "tencent.mode", "must be set, because tencent.mode is direct")
            }
        }
        demand(
            settings.aws.externalID == nil || settings.aws.roleARN != nil,
            "aws.roleArn",
            because: "aws.externalId",
            "must be set too, because aws.externalId is"
        )
        demand(
            settings.storage != .s3 || settings.s3.bucket != nil,
            "s3.bucket",
            because: "storage",
            "must be set, because storage is s3"
        )
        demand(
            settings.identity.issuer == nil || settings.identity.bucket != nil || !settings.object.buckets.isEmpty,
            "identity.bucket",
            because: "object.buckets",
            "must be set, because identity.issuer is and object.buckets names none"
        )
        // Two whole parts at least: one that is sent, and one that comes.
        demand(
            settings.s3.memory >= 2 * settings.s3.partSize,
            "s3.memory",
            because: "s3.memory",
            "must be at least twice s3.partSize (\(ByteCountText.format(settings.s3.partSize)))"
        )
        demand(
            settings.masterSecret != nil || settings.database.url == nil,
            "masterSecret",
            because: "database.url",
            "must be set, and the same for all nodes, because database.url is"
        )
        demand(
            settings.limits.headerBytes >= settings.limits.requestLine,
            "limits.headerBytes",
            because: "limits.headerBytes",
            "must not be smaller than limits.requestLine (\(ByteCountText.format(Int64(settings.limits.requestLine))))"
        )
        return problems
    }
}
