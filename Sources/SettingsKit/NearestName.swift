/// Suggests the name that was probably meant when one is mistyped.
package enum NearestName {
    /// The candidate with the smallest edit distance, if that is small enough.
    package static func of(_ name: String, among candidates: some Sequence<String>) -> String? {
        let wanted = Array(name.lowercased())
        var best: (candidate: String, distance: Int)?
        for candidate in candidates {
            let distance = distance(wanted, Array(candidate.lowercased()))
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        guard let best, best.distance <= max(2, wanted.count / 3) else { return nil }
        return best.candidate
    }

    /// A sentence that suggests the nearest candidate.
    package static func hint(_ name: String, among candidates: some Sequence<String>) -> String {
        of(name, among: candidates).map { "; did you mean \($0)?" } ?? ""
    }

    /// Levenshtein distance: insertions, deletions and replacements of one character.
    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var previous = Array(0...right.count)
        for (row, character) in left.enumerated() {
            var current = [row + 1]
            for (column, other) in right.enumerated() {
                let replaced = previous[column] + (character == other ? 0 : 1)
                current.append(min(replaced, previous[column + 1] + 1, current[column] + 1))
            }
            previous = current
        }
        return previous[right.count]
    }
}
