import Testing

@testable import Clouds

@Suite("Names of sessions", .timeLimit(.minutes(10)))
struct SessionNameTests {
    private func name(_ subject: String) -> String {
        CloudTokenRequest(subject: subject, policy: "", lifetime: 0)
            .sessionName(maximum: 32) { CloudTokenRequest.isLetterOrDigit($0) || ".@-_".utf8.contains($0) }
    }

    @Test("a subject that is a valid name stays unchanged", arguments: ["user-42", "a@b.example", "ab"])
    func same(subject: String) { #expect(name(subject) == subject) }

    @Test("other subjects become distinct, short and stable names")
    func others() {
        let subjects = ["", "a", "user 42", "user/42", "ü", "日本", String(repeating: "x", count: 33), "a\u{301}b"]
        let names = subjects.map { name($0) }
        #expect(Set(names).count == subjects.count)
        for name in names {
            #expect((16...32).contains(name.utf8.count))
            #expect(name.utf8.allSatisfy { CloudTokenRequest.isLetterOrDigit($0) })
        }
        #expect(names == subjects.map { name($0) })
        #expect(name("user 42").hasPrefix("user42"))
    }
}
