internal import Bytes
internal import Foundation

/// The version of the API that a call is for (protocol notes §3.2).
enum VimeoVersion: Equatable {
    /// Before 3.4: tickets.
    case old
    /// From 3.4 on: `upload`.
    case new
    /// The body decides.
    case unknown

    /// - Parameter accept: `application/vnd.vimeo.*+json;version=3.4` in one of many spellings.
    init(accept: String?) {
        guard let accept, let range = accept.lowercasedASCII().range(of: "version") else {
            self = .unknown
            return
        }
        let rest = accept.lowercasedASCII()[range.upperBound...].drop { $0 == " " || $0 == "=" || $0 == "\"" }
        let numbers = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }.split(separator: ".").map {
            Int($0) ?? 0
        }
        guard let major = numbers.first else {
            self = .unknown
            return
        }
        let minor = numbers.count > 1 ? numbers[1] : 0
        self = (major, minor) >= (3, 4) ? .new : .old
    }

    /// Decides between both, by the members of a creation.
    ///
    /// - Throws: 3116 if version and members do not fit.
    func decided(by body: VimeoBody) throws(VimeoError) -> VimeoVersion {
        let (isNew, isOld) = (body["upload"] != nil, body["type"] != nil)
        switch self {
        case .new:
            if isOld, !isNew { throw VimeoError.refused(.wrongVersion) }
            return .new
        case .old:
            if isNew { throw VimeoError.refused(.wrongVersion) }
            return .old
        case .unknown: return isOld && !isNew ? .old : .new
        }
    }
}
