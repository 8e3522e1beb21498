internal import Synchronization

/// Handles for labels whose values are known only when something is counted; each is made when it is first used.
///
/// Later uses cost a look-up of the key, without a text for it.
package final class HandleTable<Key: Hashable & Sendable, Handle: Sendable>: Sendable {
    private let handles = Mutex<[Key: Handle]>([:])
    private let make: @Sendable (Key) -> Handle

    /// - Parameter make: Makes the handle for a key. The number of keys must be bounded: no client may choose them.
    package init(_ make: @escaping @Sendable (Key) -> Handle) { self.make = make }

    package subscript(key: Key) -> Handle {
        handles.withLock { handles in
            if let handle = handles[key] { return handle }
            let handle = make(key)
            handles[key] = handle
            return handle
        }
    }
}
