internal import GatewayKit
internal import Logging
internal import SettingsKit
internal import Synchronization

/// Reads the settings again while the gateway runs, and takes over those that can change.
struct SettingsReload: Sendable {
    private let read: @Sendable () throws(SettingsProblems) -> LoadedSettings
    private let modules: GatewayModules
    private let logger: Logger
    /// The settings with which the gateway has started: they say which parts of it exist.
    private let started: Settings
    private let running: Running

    private final class Running: Sendable {
        let settings: Mutex<Settings>

        init(_ settings: Settings) { self.settings = Mutex(settings) }
    }

    /// - Parameters:
    ///   - settings: With which the gateway has started.
    ///   - modules: Take over what can change.
    ///   - logger: Reports each reload.
    ///   - read: Reads the settings from the same places as at the start.
    init(
        _ settings: Settings,
        _ modules: GatewayModules,
        _ logger: Logger,
        read: @escaping @Sendable () throws(SettingsProblems) -> LoadedSettings
    ) {
        (started, running) = (settings, Running(settings))
        (self.modules, self.logger, self.read) = (modules, logger, read)
    }

    private func refuse(_ reason: String) {
        logger.error("the settings were not read again; those before stay in use", metadata: ["error": "\(reason)"])
    }

    /// Takes over all changed settings that are live.
    ///
    /// Problems change nothing.
    func apply() {
        let loaded: LoadedSettings
        do throws(SettingsProblems) {
            loaded = try read()
        } catch {
            return refuse(error.problems.map(\.description).joined(separator: "; "))
        }
        running.settings.withLock { running in
            let changed = loaded.changes(from: running)
            let live = changed.filter {
                GatewayModules.isLive($0, among: Set(changed), from: started, to: loaded.values)
            }
            let next = live.isEmpty ? running : loaded.replacing(Set(live), in: running)
            let files: GatewayModules.Reread
            do throws(StartFailure) {
                files = try modules.reread(next)
            } catch {
                return refuse(error.description)
            }
            running = next
            if !live.isEmpty { modules.follow(next) }
            modules.follow(files)
            logger.notice(
                "the settings were read again",
                metadata: ["changed": "\(live.isEmpty ? "none" : live.joined(separator: ", "))"]
            )
            let rest = changed.filter { !live.contains($0) }
            if !rest.isEmpty {
                logger.warning(
                    "changed settings need a restart",
                    metadata: ["settings": "\(rest.joined(separator: ", "))"]
                )
            }
        }
    }
}
