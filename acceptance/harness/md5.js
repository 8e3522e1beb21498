// RFC 1321; browsers have none.
const SINES = Int32Array.from({length: 64}, (_, index) => Math.floor(Math.abs(Math.sin(index + 1)) * 2 ** 32))
const SHIFTS = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]]

function md5(bytes) {
    const padded = new Uint8Array((bytes.length + 72) & ~63)
    padded.set(bytes)
    padded[bytes.length] = 0x80
    const view = new DataView(padded.buffer)
    view.setUint32(padded.length - 8, bytes.length * 8, true)
    view.setUint32(padded.length - 4, bytes.length / 2 ** 29, true)
    let state = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476]
    for (let start = 0; start < padded.length; start += 64) {
        let [a, b, c, d] = state
        for (let step = 0; step < 64; step++) {
            const round = step >> 4
            const [mixed, word] = [
                [b & c | ~b & d, step],
                [d & b | ~d & c, 5 * step + 1],
                [b ^ c ^ d, 3 * step + 5],
                [c ^ (b | ~d), 7 * step],
            ][round]
            const sum = a + mixed + SINES[step] + view.getInt32(start + 4 * (word & 15), true) | 0
            const shift = SHIFTS[round][step & 3]
            ;[a, b, c, d] = [d, b + (sum << shift | sum >>> 32 - shift) | 0, b, c]
        }
        state = [a + state[0] | 0, b + state[1] | 0, c + state[2] | 0, d + state[3] | 0]
    }
    const digest = new DataView(new ArrayBuffer(16))
    state.forEach((word, index) => digest.setInt32(4 * index, word, true))
    return new Uint8Array(digest.buffer)
}
