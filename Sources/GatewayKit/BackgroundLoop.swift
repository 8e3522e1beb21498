internal import ServiceLifecycle

/// Work that goes on until the gateway shuts down.
package struct BackgroundLoop: Service {
    private let body: @Sendable () async -> Void

    /// - Parameter body: Returns when its task is cancelled.
    package init(_ body: @escaping @Sendable () async -> Void) { self.body = body }

    package func run() async throws {
        await cancelWhenGracefulShutdown { await body() }
        // If one service returned early, the group would stop all the others.
        try? await gracefulShutdown()
    }
}
