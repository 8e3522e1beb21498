internal import Bytes
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
internal import UploadModel
#endif

/// The only conversion from `errno` to a domain error.
extension UploadError {
    init(_ failure: SystemError) {
        switch failure.errno {
        case ENOSPC, EDQUOT:
            self.init(.storageFull, "The storage has no room left; try again later.", cause: failure)
        case EMFILE, ENFILE:
            self.init(.unavailable, "The server has too many files open; try again.", cause: failure)
        default:
            self.init(.storageFailure, "The storage failed; try again later.", cause: failure)
        }
    }

    /// Like `init(_:)`, for a call that may find that the blob does not exist.
    init(opening failure: SystemError) {
        if failure.errno == ENOENT {
            self.init(.notFound, "There is no such blob.", cause: failure)
        } else {
            self.init(failure)
        }
    }
}

extension AppendReport.End {
    init(_ end: TransferOutcome.End) {
        self =
            switch end {
            case .endOfSource: .endOfSource
            case .limitReached: .limitReached
            case .sourceFailed(let failure): .sourceFailed(failure)
            case .fileFailed(let number): .failed(UploadError(SystemError("write", errno: number)))
            }
    }
}
