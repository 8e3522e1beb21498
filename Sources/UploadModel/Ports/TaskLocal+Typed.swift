extension TaskLocal where Value: Sendable {
    /// As `withValue`, which forgets the type of an error, and on which actor its caller runs.
    ///
    /// Without that, everything in `body` would run on no actor: each call of an actor's function, and each return from
    /// one, would be a job of its own.
    package func with<Success, Failure>(
        _ value: Value,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        let result: Result<Success, Failure> = await withValue(value) {
            // A closure that has the isolation runs there.
            _ = isolation
            do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
