import Testing

@testable import HTTPServer

@Suite("Disk blocks that are set aside", .timeLimit(.minutes(10)))
struct BlockReservationTests {
    @Test("as many as have come are set aside, from the first MiB to 32, never more than are left")
    func doubles() {
        var reservation = BlockReservation()
        let length: Int64 = 24 << 20
        var (position, reserved, found): (Int64, Int64, [Int64]) = (0, 0, [])
        while position < length {
            position += 256 << 10
            guard let blocks = reservation.advance(by: 256 << 10, left: length - position) else { continue }
            #expect(position >= reserved, "the blocks of before are used up")
            #expect(blocks <= position && position + blocks <= length)
            reserved = position + blocks
            found.append(blocks >> 20)
        }
        #expect(found == [1, 2, 4, 8, 8])
        #expect(reserved == length)
    }

    @Test("nothing is set aside for small contents, at the end, and beyond 32 MiB")
    func none() {
        var small = BlockReservation()
        #expect(small.advance(by: (1 << 20) - 1, left: 100) == nil)
        #expect(small.advance(by: 1, left: 0) == nil)
        var large = BlockReservation()
        #expect(large.advance(by: 32 << 20, left: 1 << 30) == nil)
        #expect(large.advance(by: 1, left: 1 << 30) == nil)
    }
}
