internal import Bytes
internal import HTTPWire

/// Patterns of media types, as policies and grants name them.
package enum MediaTypeText {
    package static let hint = "a media type such as video/mp4 or video/*"

    package static func isPattern(_ text: String) -> Bool {
        MediaType(text) != nil || (text.hasSuffix("/*") && MediaType(text.dropLast() + "x") != nil)
    }
}

/// Extensions of file names, as policies name them.
package enum FileExtensionText {
    package static let hint = "an extension in lower case and without the dot, such as mp4"

    package static func isValid(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count) && text == text.lowercased()
            && text.unicodeScalars.allSatisfy { $0.properties.isAlphabetic || ("0"..."9").contains($0) }
    }
}
