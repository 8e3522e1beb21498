internal import Bytes
internal import Digests

/// The location of a part, as stored in `PartRecord.location`: `@<offset>` or the name of a file.
///
/// If the part was not synchronised, `!` and the id of the boot follow: another boot means that the part is lost.
struct PartLocation: Equatable {
    enum Place: Equatable {
        /// In the file of parts, at this offset in bytes.
        case shared(Int64)
        /// In a file of its own with this name.
        case own(String)

        /// A new place.
        static func makeOwn(of number: Int) -> Place {
            .own("\(number)-" + Hexadecimal.encode(SecureRandom.bytes(8)))
        }
    }

    let place: Place
    /// The boot in which it was written; `nil` if it is on stable storage.
    let unsynchronised: BootID?

    init(_ place: Place, unsynchronised: BootID? = nil) {
        self.place = place
        self.unsynchronised = unsynchronised
    }

    init?(_ text: String) {
        let halves = text.split(separator: "!", maxSplits: 1, omittingEmptySubsequences: false)
        if halves.count == 2 {
            guard let boot = UInt64(halves[1], radix: 16) else { return nil }
            unsynchronised = BootID(value: boot)
        } else {
            unsynchronised = nil
        }
        let text = String(halves[0])
        if text.hasPrefix("@") {
            guard let offset = Int64(text.dropFirst()), offset >= 0 else { return nil }
            place = .shared(offset)
        } else {
            let fields = text.split(separator: "-", omittingEmptySubsequences: false)
            guard fields.count == 2, Int(fields[0]) != nil, Hexadecimal.decode(String(fields[1]))?.count == 8 else {
                return nil
            }
            place = .own(text)
        }
    }

    var isPlace: Bool { if case .shared = place { true } else { false } }

    /// Whether its bytes are still there in this boot.
    func isThere(in boot: BootID) -> Bool { unsynchronised.map { $0 == boot } ?? true }

    var text: String {
        let text =
            switch place {
            case .shared(let offset): "@\(offset)"
            case .own(let name): name
            }
        return unsynchronised.map { text + "!" + String($0.value, radix: 16) } ?? text
    }
}
