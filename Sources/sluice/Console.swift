internal import Bytes
import Foundation

/// What commands print: nothing in it, wherever it came from, is an order to the terminal.
enum Console {
    /// Prints on standard output, at once: it is buffered if it is a pipe.
    static func say(_ text: String) {
        print(TerminalText.lines(text))
        fflush(nil)
    }

    /// Prints on standard error.
    static func complain(_ text: String) {
        FileHandle.standardError.write(Data((TerminalText.lines(text) + "\n").utf8))
    }
}
