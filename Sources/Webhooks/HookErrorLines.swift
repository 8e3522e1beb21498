/// What a program writes to standard error, as lines for the log: at most 100, each of at most 1000 bytes.
struct HookErrorLines {
    private var line: [UInt8] = []
    private var count = 0
    /// Bytes and lines beyond the limits.
    private var isCut = false
    private var lost = 0

    mutating func add(_ bytes: UnsafeRawBufferPointer, _ log: (String) -> Void) {
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                finish(log)
            } else if line.count < Self.maximumBytes {
                line.append(byte)
            } else {
                isCut = true
            }
        }
    }

    /// Call it when the program has ended.
    mutating func end(_ log: (String) -> Void) {
        finish(log)
        if lost > 0 { log("… and \(lost) more lines") }
    }

    private mutating func finish(_ log: (String) -> Void) {
        defer {
            line.removeAll(keepingCapacity: true)
            isCut = false
        }
        guard !line.isEmpty else { return }
        guard count < Self.maximumLines else {
            lost += 1
            return
        }
        count += 1
        log(String(decoding: line, as: UTF8.self) + (isCut ? "…" : ""))
    }

    private static let maximumLines = 100
    private static let maximumBytes = 1000
}
