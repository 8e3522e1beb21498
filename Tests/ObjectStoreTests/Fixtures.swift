import Foundation
import Signing
import UploadModel

@testable import ObjectGrants

/// 2026-01-02 03:04:05 UTC.
let noon = Date(timeIntervalSince1970: 1_767_323_045)

func master(_ byte: UInt8, accepting others: UInt8...) -> MasterSecret {
    func bytes(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 32) }
    guard let secret = MasterSecret(bytes: bytes(byte), accepting: others.map(bytes)) else { preconditionFailure() }
    return secret
}

extension ObjectGrant.Keys {
    static func prefix(_ text: String) -> ObjectGrant.Keys { KeyPrefix(text).map { .within($0) } ?? .all }
}

func grant(
    _ keys: ObjectGrant.Keys = .prefix("sv/"),
    actions: Set<ObjectAction> = Set(ObjectAction.allCases),
    expiresAt: Date = noon.addingTimeInterval(3600)
) -> ObjectGrant {
    ObjectGrant(
        upload: Grant(id: "grant-1", subject: "user-1", expiresAt: expiresAt),
        bucket: "bucket-1250000000",
        keys: keys,
        actions: actions
    )
}
