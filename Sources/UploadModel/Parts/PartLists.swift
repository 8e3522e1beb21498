/// Sizes in bytes of the parts of an object, in order.
///
/// Parts mostly have one size, so they are kept and stored as runs: 10,000 of them take 20 characters instead of 80,000 in
/// each row.
package struct PartSizes: Sendable, Equatable {
    private struct Run: Sendable, Equatable {
        var size: Int64
        var count: Int
    }

    private var runs: [Run] = []
    /// The number of parts.
    package private(set) var count = 0

    package init(_ sizes: some Sequence<Int64>) {
        for size in sizes { append(size, 1) }
    }

    private mutating func append(_ size: Int64, _ count: Int) {
        self.count += count
        if let last = runs.last, last.size == size {
            runs[runs.count - 1].count += count
        } else {
            runs.append(Run(size: size, count: count))
        }
    }

    /// The bytes of the object that part `number` has, from 1; `nil` if there is no such part.
    package func bytes(of number: Int) -> Range<Int64>? {
        guard number >= 1 else { return nil }
        var start: Int64 = 0
        var before = number - 1
        for run in runs {
            if before < run.count {
                start += run.size * Int64(before)
                return start..<start + run.size
            }
            before -= run.count
            start += run.size * Int64(run.count)
        }
        return nil
    }

    /// The sizes of the parts with `indices`, from 0, that exist.
    package func sizes(at indices: Range<Int>) -> [Int64] {
        var sizes: [Int64] = []
        var index = 0
        for run in runs {
            let shown = indices.clamped(to: index..<index + run.count)
            sizes.append(contentsOf: repeatElement(run.size, count: shown.count))
            index += run.count
        }
        return sizes
    }
}

extension PartSizes: ExpressibleByArrayLiteral {
    package init(arrayLiteral sizes: Int64...) { self.init(sizes) }
}

/// As `[[size, count], …]`. Earlier versions stored `[size, …]`, which is read too.
extension PartSizes: Codable {
    package init(from decoder: any Decoder) throws {
        for item in try NumbersOrPairs(from: decoder).items {
            let counts = 1...Int64(PartRecord.numbers.upperBound)
            guard item.first >= 0, counts.contains(item.count) else { throw NumbersOrPairs.unreadable(decoder) }
            append(item.first, Int(item.count))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        try runs.map { [$0.size, Int64($0.count)] }.encode(to: encoder)
    }
}

/// Part numbers in ascending order, each once.
///
/// Kept and stored as ranges, for the same reason as `PartSizes`.
package struct PartNumbers: Sendable, Equatable {
    private var ranges: [ClosedRange<Int>] = []

    /// - Parameter numbers: In ascending order, each once; others are left out.
    package init(_ numbers: some Sequence<Int>) {
        for number in numbers { append(number...number) }
    }

    private mutating func append(_ range: ClosedRange<Int>) {
        guard let last = ranges.last else {
            ranges = [range]
            return
        }
        guard range.lowerBound > last.upperBound else { return }
        if range.lowerBound == last.upperBound + 1 {
            ranges[ranges.count - 1] = last.lowerBound...range.upperBound
        } else {
            ranges.append(range)
        }
    }

    package func contains(_ number: Int) -> Bool {
        // Binary search: a client may list every second of 10,000 parts.
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < number { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].contains(number)
    }
}

extension PartNumbers: ExpressibleByArrayLiteral {
    package init(arrayLiteral numbers: Int...) { self.init(numbers) }
}

/// As `[[first, count], …]`. Earlier versions stored `[number, …]`, which is read too.
extension PartNumbers: Codable {
    package init(from decoder: any Decoder) throws {
        for item in try NumbersOrPairs(from: decoder).items {
            guard let first = Int(exactly: item.first), let count = Int(exactly: item.count),
                PartRecord.numbers.contains(first), PartRecord.numbers.contains(count)
            else { throw NumbersOrPairs.unreadable(decoder) }
            append(first...first + count - 1)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        try ranges.map { [$0.lowerBound, $0.count] }.encode(to: encoder)
    }
}

/// A stored list whose items are numbers or pairs of a number and a count.
private struct NumbersOrPairs: Decodable {
    var items: [(first: Int64, count: Int64)] = []

    init(from decoder: any Decoder) throws {
        var list = try decoder.unkeyedContainer()
        while !list.isAtEnd {
            if let number = try? list.decode(Int64.self) {
                items.append((number, 1))
                continue
            }
            var pair = try list.nestedUnkeyedContainer()
            items.append((try pair.decode(Int64.self), try pair.decode(Int64.self)))
            guard pair.isAtEnd else { throw Self.unreadable(decoder) }
        }
    }

    static func unreadable(_ decoder: any Decoder) -> DecodingError {
        DecodingError.dataCorrupted(
            .init(codingPath: decoder.codingPath, debugDescription: "not a list of part numbers or sizes")
        )
    }
}
