internal import Bytes
import Foundation

/// A line on standard error that shows progress, if that is a terminal; replaced at most twice a second.
final class ProgressLine {
    private let isShown = isatty(STDERR_FILENO) == 1
    private var shown = ContinuousClock.now
    private var isThere = false

    func show(_ text: @autoclosure () -> String) {
        guard isShown, ContinuousClock.now - shown > .milliseconds(500) else { return }
        shown = .now
        isThere = true
        FileHandle.standardError.write(Data("\r\u{1B}[K\(TerminalText.escaped(text()))".utf8))
    }

    func clear() {
        guard isThere else { return }
        isThere = false
        FileHandle.standardError.write(Data("\r\u{1B}[K".utf8))
    }
}
