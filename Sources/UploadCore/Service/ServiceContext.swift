internal import Bytes
internal import Foundation
internal import UploadModel

/// What all services of the core share: limits, clock, observer, and whether changes are allowed.
final class ServiceContext: Sendable {
    let limits: UploadLimits
    let observer: any UploadObserver
    /// Why changes are refused; `nil` if they are allowed.
    let refusal: UploadError?
    private let clock: any WallClock

    init(limits: UploadLimits, clock: any WallClock, observer: any UploadObserver, refusing refusal: UploadError?) {
        self.limits = limits
        self.clock = clock
        self.observer = observer
        self.refusal = refusal
    }

    /// The current time, in whole milliseconds as the state store keeps it.
    var now: Date { clock.now.wholeMilliseconds }

    /// - Throws: The reason why changes are refused.
    func checkWritable() throws(UploadError) {
        if let refusal { throw refusal }
    }

    /// Runs `body` and reports failures of storage or state, and refusals by quotas, to the observer.
    func reporting<Success>(
        _ id: UploadID?,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            report(error, of: id)
            throw error
        }
    }

    func report(_ error: UploadError, of id: UploadID?) {
        switch error.code {
        case .storageFull, .storageFailure:
            observer.observe(.failed(id, error))
        case .unavailable where error.cause != nil && !(error.cause is SourceFailure):
            observer.observe(.failed(id, error))
        case .quotaExceeded(let refusal):
            observer.observe(.refused(refusal))
        default:
            break
        }
    }
}
