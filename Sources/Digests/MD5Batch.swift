internal import COpenSSL
internal import CSystem

/// The MD5 of the bytes of a message so far.
struct MD5Hash {
    fileprivate var registers = SIMD4<UInt32>(0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476)
    /// Bytes that make no whole block yet.
    fileprivate var rest: [UInt8] = []
    /// Bytes of all blocks.
    fileprivate var count: UInt64 = 0

    /// The MD5 of all bytes, 16 bytes; do not use it afterwards.
    mutating func finish() -> [UInt8] {
        let bits = (count &+ UInt64(rest.count)) &* 8
        rest.append(0x80)
        while rest.count % ParallelMD5.blockSize != ParallelMD5.blockSize - 8 { rest.append(0) }
        withUnsafeBytes(of: bits.littleEndian) { rest.append(contentsOf: $0) }
        update(blocks: rest[...])
        return (0..<4).flatMap { index in withUnsafeBytes(of: registers[index].littleEndian) { [UInt8]($0) } }
    }

    /// Adds whole blocks of this message alone.
    fileprivate mutating func update(blocks: ArraySlice<UInt8>) {
        blocks.withUnsafeBytes { bytes in
            withUnsafeMutableBytes(of: &registers) { registers in
                cossl_md5_blocks(registers.baseAddress, bytes.baseAddress, bytes.count / ParallelMD5.blockSize)
            }
        }
        count += UInt64(blocks.count)
    }
}

/// Bytes of several messages that are hashed in parallel: see `MD5Lanes`.
struct MD5Batch: Sendable {
    struct Lane: Sendable {
        let message: MD5Lanes.Message
        private(set) var hash: MD5Hash
        /// Bytes that are not hashed yet.
        private(set) var pieces: [ArraySlice<UInt8>]
        /// Whether all bytes must be hashed; otherwise, only as long as others are hashed in parallel.
        let mustEnd: Bool
        /// Number of bytes that were taken from `pieces`.
        private(set) var hashed = 0

        init(message: MD5Lanes.Message, hash: MD5Hash, pieces: [ArraySlice<UInt8>], mustEnd: Bool) {
            self.message = message
            self.hash = hash
            self.pieces = pieces
            self.mustEnd = mustEnd
        }

        /// Takes bytes until the first piece begins with a whole block.
        ///
        /// - Returns: The length of its whole blocks in bytes; 0 if no piece is left.
        mutating func align() -> Int {
            while let piece = pieces.first {
                if hash.rest.isEmpty, piece.count >= ParallelMD5.blockSize {
                    return piece.count / ParallelMD5.blockSize * ParallelMD5.blockSize
                }
                let taken = piece.prefix(ParallelMD5.blockSize - hash.rest.count)
                hash.rest += taken
                drop(taken.count)
                if hash.rest.count == ParallelMD5.blockSize {
                    hash.update(blocks: hash.rest[...])
                    hash.rest = []
                }
            }
            return 0
        }

        /// Hashes whole blocks at the beginning of the first piece.
        mutating func update(_ count: Int) {
            hash.update(blocks: pieces[0].prefix(count))
            drop(count)
        }

        /// Notes that whole blocks at the beginning of the first piece were hashed.
        mutating func note(_ count: Int, _ registers: SIMD4<UInt32>) {
            hash.registers = registers
            hash.count += UInt64(count)
            drop(count)
        }

        private mutating func drop(_ count: Int) {
            hashed += count
            if count == pieces[0].count { pieces.removeFirst() } else { pieces[0] = pieces[0].dropFirst(count) }
        }

        var registers: SIMD4<UInt32> { hash.registers }
    }

    private(set) var lanes: [Lane]

    /// - Parameter lanes: One to four.
    init(lanes: [Lane]) { self.lanes = lanes }

    /// Hashes until all lanes that must end have ended; if none must, until the first has.
    mutating func run() {
        let hasEnd = lanes.contains { $0.mustEnd }
        while true {
            let runs = lanes.indices.map { lanes[$0].align() }
            let isOver =
                hasEnd
                ? zip(lanes, runs).allSatisfy { !$0.mustEnd || $1 == 0 }
                : runs.contains(0)
            if isOver { return }
            let active = lanes.indices.filter { runs[$0] > 0 }
            let count = active.map { runs[$0] }.min() ?? 0
            if active.count == 1 { lanes[active[0]].update(count) } else { update(active, count) }
        }
    }

    /// Hashes bytes of several lanes in parallel.
    private mutating func update(_ active: [Int], _ count: Int) {
        // Each register of all lanes, one after the other. A lane without bytes hashes those of another one in vain.
        var registers = [UInt32](repeating: 0, count: 4 * ParallelMD5.lanes)
        for lane in active {
            for register in 0..<4 { registers[register * ParallelMD5.lanes + lane] = lanes[lane].registers[register] }
        }
        Self.withAddresses(of: active.map { lanes[$0].pieces[0] }[...]) { addresses in
            guard let first = addresses.first else { return }
            var messages = [UnsafePointer<UInt8>?](repeating: first, count: ParallelMD5.lanes)
            for (lane, address) in zip(active, addresses) { messages[lane] = address }
            registers.withUnsafeMutableBytes { raw in
                csys_md5_four(
                    raw.baseAddress?.assumingMemoryBound(to: (UInt32, UInt32, UInt32, UInt32).self),
                    messages,
                    count / ParallelMD5.blockSize
                )
            }
        }
        for lane in active {
            let values = (0..<4).map { registers[$0 * ParallelMD5.lanes + lane] }
            lanes[lane].note(count, SIMD4(values))
        }
    }

    /// Calls `body` with the addresses of arrays, which are valid during the call.
    private static func withAddresses(
        of pieces: ArraySlice<ArraySlice<UInt8>>,
        _ found: [UnsafePointer<UInt8>] = [],
        _ body: ([UnsafePointer<UInt8>]) -> Void
    ) {
        guard let piece = pieces.first else { return body(found) }
        piece.withUnsafeBufferPointer { bytes in
            // Not nil: the piece is not empty.
            guard let address = bytes.baseAddress else { return }
            withAddresses(of: pieces.dropFirst(), found + [address], body)
        }
    }
}
