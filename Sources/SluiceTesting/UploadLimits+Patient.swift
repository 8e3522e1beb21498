package import UploadCore
internal import UploadModel

extension UploadLimits {
    /// These limits for tests that are not about waiting: requests wait for each other however slow the machine is.
    package var patient: UploadLimits {
        var limits = self
        limits.takeOverTimeout = .seconds(3600)
        return limits
    }
}
