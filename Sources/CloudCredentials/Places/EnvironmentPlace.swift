/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
struct EnvironmentPlace: CredentialsPlace {
    let environment: CredentialsEnvironment

    var name: String { "the environment" }

    func fetch() async throws(CredentialsError) -> Finding {
        guard let id = environment["AWS_ACCESS_KEY_ID"] else { return .nothing("AWS_ACCESS_KEY_ID is not set") }
        guard let secret = environment["AWS_SECRET_ACCESS_KEY"] else {
            throw CredentialsError("AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not")
        }
        let token = environment["AWS_SESSION_TOKEN"]
        guard let found = FetchedCredentials(id: id, secret: secret, token: token, .constant) else {
            throw CredentialsError("a variable contains characters other than visible ASCII")
        }
        return .found(found)
    }
}
