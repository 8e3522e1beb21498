/// Settings of the identity provider whose users get credentials.
extension SettingsTable {
    static let identity: [Setting] = [
        Setting(
            "identity.issuer",
            \.identity.issuer,
            optional: .identityURL,
            "Identity provider (OpenID Connect) whose users get credentials for the object endpoint by AssumeRoleWithWebIdentity."
        ),
        Setting(
            "identity.audience",
            \.identity.audiences,
            .texts("names separated by commas") { !$0.isEmpty && $0.utf8.count <= 255 },
            "The apps whose tokens are taken, as the provider names them: a token must be for one of them."
        ),
        Setting(
            "identity.jwksUrl",
            \.identity.keysURL,
            optional: .identityURL,
            "Where the keys of the provider are; without it, where its /.well-known/openid-configuration says."
        ),
        Setting(
            "identity.authorities",
            \.identity.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted with it, instead of those of the system."
        ),
        Setting(
            "identity.bucket",
            \.identity.bucket,
            optional: .bucket,
            "Bucket that its users may use; without it, the first of object.buckets."
        ),
        Setting(
            "identity.keyPrefix",
            \.identity.keyPrefix,
            .identityKeyPrefix,
            "What the keys begin with that a user may use, made of the claims of the token; in those the slash and most other signs are percent-encoded."
        ),
        Setting("identity.actions", \.identity.actions, .names(), "What its users may do with these keys."),
        Setting(
            "identity.maximumBytes",
            \.identity.maximumBytes,
            optional: .bytes(0...Int64.max),
            "Largest upload of its users, if smaller than that of others."
        ),
        Setting(
            "identity.maximumLifetime",
            \.identity.maximumLifetime,
            .duration(.seconds(60) ... .seconds(12 * 3600)),
            "Longest life of such credentials, which may be longer than that of the token."
        ),
    ]
}
