extension TaskLocal where Value: Sendable {
    /// As `withValue`, which forgets the type of an error.
    package func with<Success, Failure>(
        _ value: Value,
        _ body: () async throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        let result: Result<Success, Failure> = await withValue(value) {
            do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
