extension Schema {
    /// Finds the due events of each user.
    static let deliveryTurns = Migration(
        number: 12,
        statements: """
            CREATE INDEX event_due_by_user ON event ((coalesce(subject, '')), next_attempt_at, sequence)
                WHERE next_attempt_at IS NOT NULL;
            """
    )
}
