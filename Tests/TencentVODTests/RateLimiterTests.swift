import Foundation
import Testing

@testable import TencentVOD
@testable import VODKit

@Suite("Rate limiter", .timeLimit(.minutes(10)))
struct RateLimiterTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)

    @Test("a name has its tokens at once, and then as many in each second")
    func refills() {
        let limiter = RateLimiter(perSecond: 5)
        let first = (0..<8).filter { _ in limiter.admits("a", at: start) }
        #expect(first.count == 5)
        #expect(limiter.admits("b", at: start))
        let later = start.addingTimeInterval(0.5)
        #expect((0..<8).filter { _ in limiter.admits("a", at: later) }.count == 2)
        let muchLater = start.addingTimeInterval(3600)
        #expect((0..<8).filter { _ in limiter.admits("a", at: muchLater) }.count == 5)
    }

    @Test("one user has a quarter of a name's tokens, rounded up, and what is refused costs others nothing")
    func users() {
        for (perSecond, share) in [(100, 25), (5, 2), (1, 1)] {
            let limiter = RateLimiter(perSecond: perSecond)
            #expect((0..<200).filter { _ in limiter.admits("a", of: "dora", at: start) }.count == share)
            let others = (0..<200).filter { limiter.admits("a", of: "user \($0)", at: start) }
            #expect(others.count == perSecond - share)
            #expect(!limiter.admits("a", of: nil, at: start))
            #expect(limiter.admits("b", of: "dora", at: start))
        }
        // Names are compared by their bytes.
        let limiter = RateLimiter(perSecond: 4)
        #expect(limiter.admits("a", of: "jos\u{E9}", at: start) && limiter.admits("a", of: "jose\u{301}", at: start))
        #expect(!limiter.admits("a", of: "jos\u{E9}", at: start))
    }

    @Test("a clock that is set back adds nothing and takes nothing away")
    func clock() {
        let limiter = RateLimiter(perSecond: 2)
        #expect(limiter.admits("a", at: start))
        let earlier = start.addingTimeInterval(-3600)
        #expect(limiter.admits("a", at: earlier))
        #expect(!limiter.admits("a", at: earlier))
        #expect(limiter.admits("a", at: earlier.addingTimeInterval(1)))
    }
}
