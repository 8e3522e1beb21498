internal import Bytes
internal import CloudCalls
internal import HTTPWire

/// The files that an HLS playlist names (RFC 8216), which the upload SDKs for servers send along with it.
struct StreamingManifest: Equatable {
    /// In the order of the playlist, each once: a file of byte ranges stands there for each of them.
    private(set) var files: [String] = []

    /// Why a text is no playlist, or none whose files can be uploaded.
    struct Problem: Error, Equatable {
        /// Follows the name of the parameter.
        let rule: String
    }

    /// Tags with a file that belongs to the playlist.
    private static let parts: Set<Substring> = [
        "#EXT-X-MAP", "#EXT-X-MEDIA", "#EXT-X-I-FRAME-STREAM-INF", "#EXT-X-PART", "#EXT-X-PRELOAD-HINT",
    ]
    /// Tags whose file often comes from another server, so that only one beside the playlist is uploaded.
    private static let keys: Set<Substring> = ["#EXT-X-KEY", "#EXT-X-SESSION-KEY", "#EXT-X-SESSION-DATA"]

    /// - Parameter text: The playlist.
    /// - Throws: If this is not a playlist, or it names a file outside its directory, which the vendor does not allow either.
    init(_ text: String) throws(Problem) {
        var known: Set<String> = []
        var isFirst = true
        // Some programs write a mark of the byte order.
        for line in text.drop(while: { $0 == "\u{FEFF}" }).split(whereSeparator: \.isNewline) {
            let trimmed = line.trimmingWhitespace()
            if trimmed.isEmpty { continue }
            if isFirst {
                guard trimmed.hasPrefix("#EXTM3U") else { throw Problem(rule: "must begin with #EXTM3U") }
                isFirst = false
                continue
            }
            guard let file = try Self.file(in: trimmed), known.insert(file).inserted else { continue }
            files.append(file)
        }
        if isFirst { throw Problem(rule: "must begin with #EXTM3U") }
    }

    /// The file that a line names, if it names one to upload.
    private static func file(in line: String) throws(Problem) -> String? {
        var uri = line
        var isOptional = false
        if line.hasPrefix("#") {
            let tag = line.prefix { $0 != ":" }
            isOptional = keys.contains(tag)
            guard isOptional || parts.contains(tag), let named = attribute("URI", of: line.dropFirst(tag.count + 1))
            else { return nil }
            uri = named
        }
        // Of a URI, what a file system has.
        let path = String(uri.prefix { $0 != "?" && $0 != "#" })
        if isBelow(path) { return path }
        if isOptional { return nil }
        let shown = uri.first(scalars: 128)
        throw Problem(rule: "must name files in its directory or below it, with relative paths: not \(shown)")
    }

    /// Whether a path stays in the directory in which it is resolved.
    private static func isBelow(_ path: String) -> Bool {
        // A scheme, or a drive.
        if path.first?.isLetter == true, let colon = path.firstIndex(of: ":"), !path[..<colon].contains("/") {
            return false
        }
        guard let first = path.first, first != "/", first != "\\" else { return false }
        var depth = 0
        for segment in path.split(whereSeparator: { $0 == "/" || $0 == "\\" }) where segment != "." {
            depth += segment == ".." ? -1 : 1
            if depth < 0 { return false }
        }
        return depth > 0
    }

    /// The value of an attribute in a list of `NAME=value` and `NAME="value"`, separated by commas.
    private static func attribute(_ name: String, of list: Substring) -> String? {
        var rest = list
        while let equals = rest.firstIndex(of: "=") {
            let found = rest[..<equals].drop { $0 == "," || $0.isWhitespace }
            rest = rest[rest.index(after: equals)...]
            let isQuoted = rest.first == "\""
            if isQuoted { rest = rest.dropFirst() }
            let value = rest.prefix { $0 != (isQuoted ? "\"" : ",") }
            if found == name { return String(value) }
            rest = rest[value.endIndex...].dropFirst()
        }
        return nil
    }
}

extension VODParameters {
    /// The parameters of `ParseStreamingManifest`.
    ///
    /// - Returns: The files of the playlist.
    /// - Throws: `MissingParameter`, `InvalidParameterValue…`, `UnknownParameter`.
    mutating func streamingManifest() throws(VODError) -> StreamingManifest {
        let type = try text("ManifestType", atMost: 64) ?? "m3u8"
        guard type.lowercasedASCII() == "m3u8" else {
            throw wrong("ManifestType", "must be m3u8: other manifests are not read by this server")
        }
        guard let content = try text("MediaManifestContent", atMost: CloudCall.maximumManifest) else {
            throw Self.missing("MediaManifestContent")
        }
        try finish()
        do throws(StreamingManifest.Problem) {
            return try StreamingManifest(content)
        } catch {
            throw wrong("MediaManifestContent", error.rule)
        }
    }
}
