import Foundation
import Testing
import UploadModel

@Suite("Lists of part sizes and numbers", .timeLimit(.minutes(10)))
struct PartListsTests {
    private func stored(_ value: some Encodable) throws -> String {
        String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
    }

    private func read<Value: Decodable>(_ type: Value.Type, _ text: String) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }

    @Test("each part has the bytes that it would have in a plain list", arguments: 0..<50)
    func bytes(seed: Int) {
        let sizes = (0..<seed).map { Int64(($0 * $0 + seed) / 7 % 3) }
        let list = PartSizes(sizes)
        #expect(list.count == sizes.count)
        var start: Int64 = 0
        for (index, size) in sizes.enumerated() {
            #expect(list.bytes(of: index + 1) == start..<start + size)
            start += size
        }
        #expect(list.bytes(of: 0) == nil && list.bytes(of: -1) == nil && list.bytes(of: sizes.count + 1) == nil)
        for first in 0...sizes.count {
            for end in first...sizes.count { #expect(list.sizes(at: first..<end) == Array(sizes[first..<end])) }
        }
        #expect(list.sizes(at: 0..<sizes.count + 5) == sizes)
    }

    @Test("10,000 parts are stored in a few characters")
    func compactness() throws {
        let sizes = Array(repeating: Int64(8 << 20), count: 9_999) + [5]
        #expect(try stored(PartSizes(sizes)) == "[[8388608,9999],[5,1]]")
        #expect(try stored(PartNumbers(1...10_000)) == "[[1,10000]]")
        #expect(try stored(PartNumbers([1, 2, 5, 7, 8])) == "[[1,2],[5,1],[7,2]]")
    }

    @Test("what is stored is read again, also as earlier versions stored it")
    func reading() throws {
        let sizes: PartSizes = [5, 5, 0, 5]
        #expect(try read(PartSizes.self, stored(sizes)) == sizes)
        #expect(try read(PartSizes.self, "[5,5,0,5]") == sizes)
        #expect(try read(PartSizes.self, "[]") == [])
        let numbers: PartNumbers = [1, 2, 9_999, 10_000]
        #expect(try read(PartNumbers.self, stored(numbers)) == numbers)
        #expect(try read(PartNumbers.self, "[1,2,9999,10000]") == numbers)
    }

    @Test(
        "other lists are refused",
        arguments: [
            "{}", "[[]]", "[[1]]", "[[1,0]]", "[[1,-1]]", "[[1,10001]]", "[[1,1,1]]", "[\"1\"]", "[[-1,1]]",
            "[[1,9223372036854775807]]", "[-5]",
        ]
    )
    func refusals(text: String) {
        #expect(throws: DecodingError.self) { try read(PartSizes.self, text) }
        #expect(throws: DecodingError.self) { try read(PartNumbers.self, text) }
    }

    @Test("numbers are found, and others are not")
    func numbers() {
        let chosen = stride(from: 1, to: 300, by: 2).filter { $0 % 50 != 1 } + [301, 302]
        let list = PartNumbers(chosen)
        for number in 0...310 { #expect(list.contains(number) == chosen.contains(number)) }
        #expect(list != PartNumbers(chosen.dropLast()))
    }
}
