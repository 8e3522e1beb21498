import Testing

@testable import Signing

extension String {
    /// Changes each byte in turn: its lowest bit, or the case of a letter at an odd position.
    ///
    /// Changes another bit if the text would not be UTF-8, because servers refuse such a text before they check signatures.
    ///
    /// - Parameter keepsCase: Whether the lowest bit of letters at odd positions is changed, too.
    /// - Returns: A text for each byte.
    func changedTexts(keepsCase: Bool = false) -> [String] {
        var bytes = Array(utf8)
        var texts: [String] = []
        for index in bytes.indices {
            let byte = bytes[index]
            let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
            let bits: [UInt8] = isLetter && index % 2 == 1 && !keepsCase ? [0x20] : [1, 2, 4, 8, 16]
            for bit in bits {
                bytes[index] = byte ^ bit
                guard let text = String(validating: bytes, as: UTF8.self) else { continue }
                texts.append(text)
                break
            }
            bytes[index] = byte
        }
        return texts
    }
}

/// Verifies variants of a signed request, and records those that are not refused as expected.
struct ByteChanges {
    private let vector: RequestVector
    /// The number of bytes that were changed.
    private(set) var count = 0

    init(_ vector: RequestVector) {
        self.vector = vector
    }

    /// Changes each byte of a text.
    ///
    /// - Parameters:
    ///   - text: In the request.
    ///   - place: Where it is, for messages.
    ///   - request: As it was signed.
    ///   - keepsCase: Whether the case of letters has no meaning.
    ///   - set: Puts a changed text into the request.
    ///   - failure: The failure that a changed text must cause.
    mutating func check(
        _ text: String,
        _ place: String,
        in request: SigningRequest,
        keepsCase: Bool = false,
        set: (inout SigningRequest, String) -> Void,
        failure: (String) -> RequestSignatureFailure
    ) {
        var request = request
        for changed in text.changedTexts(keepsCase: keepsCase) {
            set(&request, changed)
            expect(failure(changed), request) { "\(place): \(changed.debugDescription)" }
            count += 1
        }
    }

    /// Expects a failure; `nil` if the request must be accepted.
    func expect(_ expected: RequestSignatureFailure?, _ request: SigningRequest, _ comment: () -> String) {
        var found: RequestSignatureFailure?
        do throws(RequestSignatureFailure) { try vector.verify(request) } catch { found = error }
        guard found != expected else { return }
        let texts = [found, expected].map { $0.map { "\($0)" } ?? "accepted" }
        Issue.record("\(comment()) is \(texts[0]), not \(texts[1])")
    }
}
