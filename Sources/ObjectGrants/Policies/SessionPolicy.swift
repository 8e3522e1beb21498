internal import Signing

/// A policy that restricts a session, converted from one vendor's format.
///
/// Everything is denied unless a statement allows it and none denies it. If a condition depends on a property that the
/// request could have but lacks, an allowing statement does not apply and a denying one does.
package struct SessionPolicy: Sendable, Equatable {
    /// Longer ones are refused unread; the vendors' own limits are lower.
    package static let maximumByteCount = 20_480

    enum Effect: Sendable, Equatable {
        case allow, deny
    }

    struct Statement: Sendable, Equatable {
        let effect: Effect
        let actions: Set<ObjectAction>
        /// Each matches a whole `bucket` or `bucket/key`.
        let resources: [WildcardPattern]
        /// All must be met.
        let conditions: [PolicyCondition]
    }

    let vendor: Vendor
    let statements: [Statement]

    package func allows(_ access: ObjectAccess) -> Bool {
        let resources = resources(of: access)
        var isAllowed = false
        for statement in statements where statement.actions.contains(access.action) {
            guard statement.resources.contains(where: { resources.contains(where: $0.matches) }) else { continue }
            let isDenial = statement.effect == .deny
            guard statement.conditions.allSatisfy({ $0.isMet(by: access) ?? isDenial }) else { continue }
            if isDenial { return false }
            isAllowed = true
        }
        return isAllowed
    }

    /// The texts that resource patterns are compared with; one must match.
    ///
    /// In COS policies the resource of a listing is the requested prefix, in the others it is the bucket. A call of
    /// ApsaraVideo VOD concerns that service, and objects.
    private func resources(of access: ObjectAccess) -> [String] {
        let object = access.bucket + "/" + access.key
        if access.action.isVideoCall { return [ResourceNames.videoCalls, object] }
        return [access.action.isForBucket && vendor != .tencent ? access.bucket : object]
    }
}
