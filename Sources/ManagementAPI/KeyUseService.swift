internal import Logging
internal import ServiceLifecycle
internal import UploadCore
internal import UploadModel

/// Records the last use of API keys once a minute, and at the end.
struct KeyUseService: Service {
    private static let interval = Duration.seconds(60)

    let uses: KeyUses
    let state: any KeyRecords
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: Self.interval)) != nil { await record() }
        }
        await record()
    }

    private func record() async {
        do throws(UploadError) {
            try await uses.record(in: state)
        } catch {
            logger.warning("the last use of API keys was not recorded", metadata: ["error": "\(error.message)"])
        }
    }
}
