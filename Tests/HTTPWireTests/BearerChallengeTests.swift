import HTTPWire
import Testing

@Suite("challenges of the scheme Bearer", .timeLimit(.minutes(10)))
struct BearerChallengeTests {
    @Test("a description has only the characters of RFC 6750")
    func description() {
        #expect(
            BearerChallenge.invalidToken("Your `key` has expired; get another.")
                == "error=\"invalid_token\", error_description=\"Your `key` has expired; get another.\""
        )
        #expect(
            BearerChallenge.invalidToken("a\"b\\c\r\nd é")
                == "error=\"invalid_token\", error_description=\"a'b?c??d ?\""
        )
    }
}
