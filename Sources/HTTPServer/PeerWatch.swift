internal import SystemIO
internal import Transport

/// Detects that the client disconnects or the server stops while a response without an end is sent.
///
/// Must be used on the loop of its connection. It has no task: see `Channel.whenReadable`.
final class PeerWatch {
    private let channel: Channel
    /// Receives what the client sends meanwhile: its next request.
    private let input: InputBuffer
    private var action: (@Sendable () -> Void)?
    private var isStopping: Bool

    init(channel: Channel, input: InputBuffer, isStopping: Bool) {
        self.channel = channel
        self.input = input
        self.isStopping = isStopping
    }

    /// Calls `action` once, when the client disconnects or the server stops.
    func begin(_ action: @escaping @Sendable () -> Void) {
        if isStopping { return action() }
        self.action = action
        look()
    }

    /// The response has ended.
    func end() {
        guard action != nil else { return }
        action = nil
        channel.cancelWhenReadable()
    }

    /// The server stops.
    func stop() {
        isStopping = true
        report()
    }

    private func report() {
        guard let action else { return }
        end()
        action()
    }

    /// Reads ahead, because only a read distinguishes the end of a connection from another request.
    private func look() {
        while action != nil {
            let known = channel.whenReadable(until: .max) { [self] result in
                switch result {
                case .success: look()
                case .failure: report()
                }
            }
            // If the client sends a lot, stop reading ahead: the next write detects a disconnect.
            if known == nil || input.count >= Self.maximumReadAhead { return }
            if channel.interruption != nil { return report() }
            switch input.fill(from: channel, room: Self.maximumReadAhead) {
            case .moved, .wouldBlockReading: break
            case .wouldBlockWriting: return
            case .ended, .failed: return report()
            }
        }
    }

    private static let maximumReadAhead = 4096
}
