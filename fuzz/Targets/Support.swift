internal import Glibc

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

#if FUZZING
/// Entry point of libFuzzer; `fuzz/run` writes the `fuzzOne` of each target.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzzOne([UInt8](UnsafeBufferPointer(start: start, count: count)))
    return 0
}
#else
internal import Testing
#endif

/// Unless `condition` holds: ends the run, so that libFuzzer keeps the input, or fails the unit test.
func expect(
    _ condition: Bool,
    _ message: @autoclosure () -> String,
    line: UInt = #line,
    file: StaticString = #fileID
) {
    if condition { return }
    #if !FUZZING
    Issue.record("\(file):\(line): \(message())")
    #else
    // The text of a precondition is not in an optimised build.
    let text = Array("\(file):\(line): \(message())\n".utf8)
    _ = text.withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
    abort()
    #endif
}

/// As `expect`, of two values that must be equal.
func expectEqual<Value: Equatable>(
    _ left: Value,
    _ right: Value,
    _ message: @autoclosure () -> String,
    line: UInt = #line,
    file: StaticString = #fileID
) {
    expect(left == right, "\(message()): \(left) is not \(right)", line: line, file: file)
}

extension SeededGenerator {
    /// Choices that depend on `bytes` only, so that an input does the same each time.
    init(for bytes: [UInt8]) {
        // FNV-1a.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        self.init(seed: hash)
    }

    /// True once in `times`.
    mutating func oneIn(_ times: UInt64) -> Bool { next() % times == 0 }

    /// Up to `count` places to cut `length` bytes at, ascending.
    mutating func cuts(_ count: Int, in length: Int) -> [Int] {
        (0..<count).map { _ in Int.random(in: 0...length, using: &self) }.sorted()
    }
}

/// The text in `bytes`, as a field value would be read.
func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
