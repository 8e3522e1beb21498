// Shared by the targets for signatures: makes a request from bytes, and checks properties of every scheme.

internal import HTTPWire
internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

/// 2026-01-02T03:04:05Z, at which everything is signed and checked.
let now: Int64 = 1_767_323_045

let credentials = SigningCredentials(accessKeyID: "key", secretAccessKey: "secret", sessionToken: "token")

/// A request as text: `METHOD path?query`, then a header field in each line, as far as they are some.
struct FuzzedRequest {
    var request: SigningRequest

    init(_ bytes: [UInt8]) {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let first = lines.first ?? []
        let space = first.firstIndex(of: UInt8(ascii: " "))
        let target = space.map { first[first.index(after: $0)...] } ?? []
        let mark = target.firstIndex(of: UInt8(ascii: "?"))
        let query = mark.flatMap { try? QueryItems(text(target[target.index(after: $0)...])) }
        request = SigningRequest(
            method: text(space.map { first[..<$0] } ?? first),
            path: text(mark.map { target[..<$0] } ?? target),
            query: (query?.items ?? []).map { SigningField($0.name, $0.value) },
            headers: lines.dropFirst().compactMap { line in
                // Names are tokens and values have no control characters: `RequestHeadParser` has seen to that.
                guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                    line[..<colon].allSatisfy(HTTPCharacters.isToken),
                    line[colon...].allSatisfy(HTTPCharacters.isFieldValue)
                else { return nil }
                return SigningField(text(line[..<colon]), text(line[line.index(after: colon)...]))
            }
        )
    }
}

extension SigningRequest {
    /// Without the parameters and header fields that signers make, and with one `host`.
    func plain(without names: Set<String>) -> SigningRequest {
        func stays(_ field: SigningField) -> Bool {
            let name = field.name.lowercased()
            return !names.contains(name) && name != "host" && name != "authorization" && !name.hasPrefix("x-amz-")
                && !name.hasPrefix("x-oss-") && !name.hasPrefix("x-cos-") && !name.hasPrefix("x-acs-")
                && !name.hasPrefix("x-tc-") && !name.hasPrefix("q-")
        }
        var plain = self
        plain.query = query.filter(stays)
        var seen: Set<String> = []
        plain.headers = headers.filter { stays($0) && seen.insert($0.name.lowercased()).inserted }
        plain.headers.append(SigningField("host", "bucket.example:8080"))
        return plain
    }

    /// With these fields instead of those with the same names.
    func adding(_ fields: [SigningField]) -> SigningRequest {
        var signed = self
        let names = Set(fields.map(\.name))
        signed.headers.removeAll { names.contains($0.name.lowercased()) }
        signed.headers += fields
        return signed
    }
}

/// A request is only accepted with the right secret: whatever the bytes, another secret fails.
func expectRefusal(_ verify: () throws(RequestSignatureFailure) -> Void, line: UInt = #line) {
    do throws(RequestSignatureFailure) {
        try verify()
    } catch {
        return
    }
    expect(false, "accepted", line: line)
}

/// A request that was signed here is accepted.
func expectAcceptance(
    _ what: @autoclosure () -> String,
    line: UInt = #line,
    _ verify: () throws(RequestSignatureFailure) -> Void
) {
    do throws(RequestSignatureFailure) {
        try verify()
    } catch {
        expect(false, "\(what()) is refused: \(error)", line: line)
    }
}

let otherCredentials = SigningCredentials(
    accessKeyID: "key",
    secretAccessKey: SeededGenerator.unguessable,
    sessionToken: "token"
)

extension SeededGenerator {
    /// A secret that signed no input of the corpus.
    fileprivate static let unguessable = "another secret"
}
