internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#endif

/// The span that a task works for.
///
/// `current` is set only if traces are on, so everybody else pays for one look at a task-local value.
package final class TraceScope: Sendable {
    @TaskLocal package static var current: TraceScope?

    package let context: TraceContext
    /// The span that this one is part of; 0 for the first span of a trace.
    package let parentID: UInt64
    /// Unix nanoseconds.
    package let start: UInt64
    private let recorder: any SpanRecorder
    private let upload = Mutex<String?>(nil)

    /// The upload that the span is about; an id, not a credential.
    package var uploadID: String? { upload.withLock { $0 } }

    /// Notes which upload the span is about; the first one counts.
    package func note(upload id: @autoclosure () -> String) {
        upload.withLock { if $0 == nil { $0 = id() } }
    }

    package init(_ context: TraceContext, parentID: UInt64, _ recorder: any SpanRecorder) {
        self.context = context
        self.parentID = parentID
        self.recorder = recorder
        start = Self.now
    }

    /// Begins a span that is part of this one.
    package func child() -> TraceScope { TraceScope(context.child(), parentID: context.spanID, recorder) }

    /// Ends the span; does nothing if the trace is not sampled.
    ///
    /// - Parameters:
    ///   - name: One of a limited number of texts.
    ///   - kind: Its role.
    ///   - attributes: By name, as in the semantic conventions of OpenTelemetry; no credential, and no URL that has one.
    ///   - error: Why it failed, one of a limited number of texts; `nil` if it did not.
    package func end(
        _ name: @autoclosure () -> String,
        _ kind: FinishedSpan.Kind,
        _ attributes: @autoclosure () -> [FinishedSpan.Attribute] = [],
        error: String? = nil
    ) {
        guard context.isSampled else { return }
        recorder.record(
            FinishedSpan(
                context: context,
                parentID: parentID,
                name: name(),
                kind: kind,
                start: start,
                end: max(start, Self.now),
                attributes: attributes(),
                error: error
            )
        )
    }

    private static var now: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// Begins traces, and takes the spans that ended.
package protocol SpanRecorder: Sendable {
    /// Begins the first span of a trace here.
    ///
    /// - Parameter parent: The span of another service, or of an earlier request; `nil` begins a new trace.
    /// - Returns: A span that has begun.
    func scope(continuing parent: TraceContext?) -> TraceScope
    /// Must return quickly and must not block.
    func record(_ span: FinishedSpan)
}

/// What happened between two moments.
package struct FinishedSpan: Sendable {
    /// The numbers are those of OTLP (`Span.SpanKind`).
    package enum Kind: Int64, Sendable {
        case work = 1
        case server = 2
        case client = 3
    }

    package enum Value: Sendable, Equatable {
        case text(String)
        case number(Int64)
    }

    package struct Attribute: Sendable {
        package let name: String
        package let value: Value

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = .text(value)
        }

        package init(_ name: String, _ value: Int64) {
            self.name = name
            self.value = .number(value)
        }
    }

    package let context: TraceContext
    package let parentID: UInt64
    package let name: String
    package let kind: Kind
    /// Unix nanoseconds.
    package let start: UInt64
    package let end: UInt64
    package let attributes: [Attribute]
    package let error: String?

    package init(
        context: TraceContext,
        parentID: UInt64,
        name: String,
        kind: Kind,
        start: UInt64,
        end: UInt64,
        attributes: [Attribute],
        error: String?
    ) {
        self.context = context
        self.parentID = parentID
        self.name = name
        self.kind = kind
        self.start = start
        self.end = end
        self.attributes = attributes
        self.error = error
    }
}
