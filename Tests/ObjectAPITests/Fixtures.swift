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

/// Numbers that are the same in each run (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
