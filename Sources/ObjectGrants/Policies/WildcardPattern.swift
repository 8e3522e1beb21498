/// A pattern in which `*` matches any number of characters, including `/`, and `?` matches one.
///
/// Characters are Unicode scalars, because strings that only look the same are different keys.
package struct WildcardPattern: Sendable, Equatable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (first: WildcardPattern, second: WildcardPattern) -> Bool {
        first.text.utf8.elementsEqual(second.text.utf8)
    }

    /// Whether the whole of `subject` matches.
    package func matches(_ subject: String) -> Bool {
        var steps = 0
        return matches(subject, counting: &steps)
    }

    /// Whether the whole of `subject` matches; clients choose both, and one request may name 1,000 keys.
    ///
    /// - Parameters:
    ///   - subject: The text.
    ///   - steps: Grows by the work that was done: about the length of `subject` for each 64 bytes of the pattern.
    /// - Returns: The answer.
    func matches(_ subject: String, counting steps: inout Int) -> Bool {
        var pattern = text.utf8[...]
        var rest = subject.utf8[...]
        // What precedes the first wildcard decides in most cases.
        while let byte = pattern.first, byte != Self.asterisk, byte != Self.questionMark {
            steps += 1
            guard rest.first == byte else { return false }
            pattern.removeFirst()
            rest.removeFirst()
        }
        if pattern.isEmpty { return rest.isEmpty }
        // Such as `prefix/*`.
        if pattern.allSatisfy({ $0 == Self.asterisk }) { return true }
        return WildcardAutomaton(Array(pattern)).accepts(Array(rest), counting: &steps)
    }

    fileprivate static let asterisk = UInt8(ascii: "*")
    fileprivate static let questionMark = UInt8(ascii: "?")
}

/// Follows all ways to match at once, each as a bit: in state `n` the first `n` bytes of the pattern, without its
/// asterisks, have matched.
private struct WildcardAutomaton {
    /// Of a set of states.
    private let wordCount: Int
    /// Where the set of each byte begins in `named`.
    private var places = [Int](repeating: 0, count: 256)
    /// Sets of states in which the pattern names a byte; the first is empty, for bytes that it does not name.
    private var named: [UInt64]
    /// States before `?`.
    private var open: [UInt64]
    /// States after an asterisk: any byte leaves them as they are.
    private var waiting: [UInt64]
    /// States after `?`: the other bytes of the same character leave them as they are.
    private var within: [UInt64]
    private let last: Int

    init(_ pattern: [UInt8]) {
        let tokens = pattern.filter { $0 != WildcardPattern.asterisk }
        last = tokens.count
        wordCount = tokens.count / 64 + 1
        let none = [UInt64](repeating: 0, count: wordCount)
        (named, open, waiting, within) = (none, none, none, none)
        for byte in tokens where byte != WildcardPattern.questionMark && places[Int(byte)] == 0 {
            places[Int(byte)] = named.count
            named += none
        }
        var state = 0
        for byte in pattern {
            let (word, bit) = (state / 64, UInt64(1) << UInt64(state % 64))
            switch byte {
            case WildcardPattern.asterisk:
                waiting[word] |= bit
                continue
            case WildcardPattern.questionMark: open[word] |= bit
            default: named[places[Int(byte)] + word] |= bit
            }
            state += 1
            if byte == WildcardPattern.questionMark { within[state / 64] |= 1 << UInt64(state % 64) }
        }
    }

    func accepts(_ subject: [UInt8], counting steps: inout Int) -> Bool {
        var states = [UInt64](repeating: 0, count: wordCount)
        states[0] = 1
        for byte in subject {
            steps += wordCount
            let isContinuation = byte & 0xC0 == 0x80
            let place = places[Int(byte)]
            var carry: UInt64 = 0
            var alive: UInt64 = 0
            for word in 0..<wordCount {
                let before = states[word]
                let moved = before & (isContinuation ? named[place + word] : named[place + word] | open[word])
                let kept = before & (isContinuation ? waiting[word] | within[word] : waiting[word])
                states[word] = kept | moved << 1 | carry
                carry = moved >> 63
                alive |= states[word]
            }
            if alive == 0 { return false }
        }
        return states[last / 64] & 1 << UInt64(last % 64) != 0
    }
}
