package import Foundation

/// A right to write objects that ends with what it was given for, although its credentials are valid for longer.
///
/// The id of its grant says so: it is sealed into the credentials, and uploads keep it as their `principal`. An end is a
/// record among the used grants. The transaction that records an upload or its object looks there, so a request that was
/// admitted before the end changes nothing after it.
package struct WritingRight: Sendable, Equatable {
    package enum End: String, Sendable, CaseIterable {
        /// `ObjectService.endRight` ends it; until then its objects can be replaced.
        case whenCommitted = "tencent_"
        /// The first object that is completed under it ends it.
        case withObject = "aliyun_"

        /// The id of a grant.
        ///
        /// - Parameters:
        ///   - subject: What it is for, such as the id of media.
        ///   - turn: How often such a right was given anew after its end.
        /// - Returns: The id.
        package func grantID(for subject: String, turn: Int = 0) -> String {
            rawValue + subject + (turn > 0 ? ".\(turn)" : "")
        }
    }

    /// The id of the grant.
    package let id: String
    package let end: End

    /// `nil` for a grant that ends only when it expires.
    package init?(grantID: String) {
        guard let end = End.allCases.first(where: { grantID.hasPrefix($0.rawValue) }) else { return nil }
        id = grantID
        self.end = end
    }

    /// Whether an upload ends it by its completion; what can be appended to is never complete.
    package func isEnded(by upload: Upload) -> Bool {
        end == .withObject && upload.attributes?.isAppendable != true
    }

    /// Until when its end must be known, if it ends now: longer than any of its credentials is valid.
    package static func recorded(from now: Date) -> Date { now.addingTimeInterval(30 * 86_400) }
}

extension Upload {
    /// The right under which it becomes an object; `nil` if that does not end before it expires.
    package var writingRight: WritingRight? { bucket == nil ? nil : WritingRight(grantID: principal) }
}
