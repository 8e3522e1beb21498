/// How the tables of a state compare with those that this version of Sluice uses.
package enum SchemaAge: Sendable, Equatable {
    /// There are none yet.
    case missing
    /// The next start changes them.
    case older
    case current
    /// This version cannot use them.
    case newer
}
