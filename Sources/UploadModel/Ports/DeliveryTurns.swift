/// Which due events are delivered next if there are more than can be: users have turns.
package enum DeliveryTurns {
    /// The name of those without a user, who have a turn, too.
    package static let noUser = ""

    /// How many users at most are asked for due events, for a number of places.
    package static func mostUsers(for limit: Int) -> Int { limit + 32 }

    /// Takes one event of each user, then a second one, and so on.
    ///
    /// - Parameters:
    ///   - limit: The number of places.
    ///   - queues: The due events of users, oldest first, in the order of their turns.
    ///   - oldest: The oldest due events of all, for places that are left.
    /// - Returns: At most `limit` events, none twice.
    package static func choose<Event: Hashable>(_ limit: Int, of queues: [[Event]], else oldest: [Event]) -> [Event] {
        var chosen: [Event] = []
        var known: Set<Event> = []
        func take(_ event: Event) {
            if chosen.count < limit, known.insert(event).inserted { chosen.append(event) }
        }
        for place in 0..<limit where chosen.count < limit {
            for queue in queues where place < queue.count { take(queue[place]) }
        }
        for event in oldest { take(event) }
        return chosen
    }
}
