import HTTPWire
import Testing

@testable import ResumableHTTP

@Suite("Interop versions", .timeLimit(.minutes(10)))
struct InteropVersionTests {
    @Test("versions 3 to 8 are supported", arguments: 3...8)
    func known(number: Int) {
        #expect(InteropVersion(["Upload-Draft-Interop-Version": String(number)]).number == number)
    }

    @Test(
        "an unknown or malformed version gets the newest rules without interim responses",
        arguments: ["2", "9", "999999999999999", "8.0", "\"8\"", "?1", "", "8, 8", "-8"]
    )
    func unknown(text: String) {
        let version = InteropVersion(["Upload-Draft-Interop-Version": text])
        #expect(version == InteropVersion([:]))
        #expect(version.number == nil)
        #expect(!version.hasInterim && !version.hasProgress)
        #expect(version.needsMediaType && version.needsCompleteness && version.targetResponses)
    }

    @Test("version 3 declares incompleteness instead of completeness")
    func incomplete() {
        let first = InteropVersion(["Upload-Draft-Interop-Version": "3"])
        #expect(first.isLast(["Upload-Incomplete": "?1"]) == false)
        #expect(first.isLast(["Upload-Incomplete": "?0"]) == true)
        #expect(first.isLast(["Upload-Complete": "?1"]) == nil)
        var fields: HTTPFields = [:]
        first.setComplete(true, in: &fields)
        #expect(fields["Upload-Incomplete"] == "?0")
        #expect(!fields.contains("Upload-Complete"))
    }

    @Test("completeness in another form is ignored", arguments: ["1", "true", "?2", "", "?1, ?1", "\"?1\""])
    func malformed(text: String) {
        #expect(InteropVersion([:]).isLast(["Upload-Complete": text]) == nil)
    }

    @Test("each rule begins or ends with the right version")
    func rules() {
        let versions = (3...8).map { InteropVersion(["Upload-Draft-Interop-Version": String($0)]) }
        #expect(versions.map(\.hasProgress) == [false, false, true, true, true, true])
        #expect(versions.map(\.needsMediaType) == [false, false, false, true, true, true])
        #expect(versions.map(\.hasLimits) == [false, false, false, true, true, true])
        #expect(versions.map(\.ageKey) == ["expires", "expires", "expires", "expires", "max-age", "max-age"])
        #expect(versions.map(\.needsCompleteness) == [false, false, false, false, true, true])
        #expect(versions.map(\.refusesStrayFields) == [true, true, true, true, false, false])
        #expect(versions.map(\.hasCompletedProblem) == [true, true, true, true, true, false])
        #expect(versions.map(\.appendStatus) == [201, 201, 201, 201, 204, 204])
    }
}
