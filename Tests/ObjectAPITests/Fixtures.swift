import Foundation
import Signing
import UploadCore

@testable import ObjectAPI

/// 2026-01-02 03:04:05 UTC.
let noon = Date(timeIntervalSince1970: 1_767_323_045)

func master(_ byte: UInt8) -> MasterSecret {
    guard let secret = MasterSecret(bytes: [UInt8](repeating: byte, count: 32)) else { preconditionFailure() }
    return secret
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
