/// What the holder of a session may do, in the words of one vendor's policies.
///
/// Everything is denied but what a statement allows and none denies. Where a condition is about something that a request
/// could tell but does not, a statement that allows does not apply, and one that denies does.
package struct SessionPolicy: Sendable, Equatable {
    /// Longer ones are refused unread; those that vendors take are shorter.
    package static let maximumByteCount = 20_480

    enum Effect: Sendable, Equatable {
        case allow, deny
    }

    struct Statement: Sendable, Equatable {
        let effect: Effect
        let actions: Set<ObjectAction>
        /// Each for `bucket` or `bucket/key` as a whole.
        let resources: [WildcardPattern]
        /// All must be met.
        let conditions: [PolicyCondition]
    }

    let dialect: ObjectDialect
    let statements: [Statement]

    package func allows(_ access: ObjectAccess) -> Bool {
        let resource = resource(of: access)
        var isAllowed = false
        for statement in statements where statement.actions.contains(access.action) {
            guard statement.resources.contains(where: { $0.matches(resource) }) else { continue }
            let isDenial = statement.effect == .deny
            guard statement.conditions.allSatisfy({ $0.isMet(by: access) ?? isDenial }) else { continue }
            if isDenial { return false }
            isAllowed = true
        }
        return isAllowed
    }

    /// What patterns are compared with.
    ///
    /// In policies of COS the resource of a request for a bucket is the prefix that it
    /// asks for, in the others the bucket.
    private func resource(of access: ObjectAccess) -> String {
        access.action.isForBucket && dialect != .cos ? access.bucket : access.bucket + "/" + access.key
    }
}
