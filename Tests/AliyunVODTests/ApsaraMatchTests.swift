import Testing

@testable import AliyunVOD

@Suite("Filters of SearchMedia")
struct ApsaraMatchTests {
    @Test("an empty filter matches everything")
    func empty() throws { #expect(try ApsaraMatch(" ") == .all) }
}
