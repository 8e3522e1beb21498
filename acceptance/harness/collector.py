"""A collector of OpenTelemetry: takes OTLP over HTTP in JSON, and checks it against the protobuf definitions."""

import base64
import json
import re

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.http_server import LocalServer

# In OTLP's JSON these are hexadecimal; in that of protobuf they would be base64.
IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


class Span:
    """A received span, with plain values."""

    def __init__(self, span, resource):
        self.name, self.kind = span.name, span.kind
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.state = span.trace_state
        self.start, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = plain(span.attributes)
        assert len(self.attributes) == len(span.attributes)
        self.is_error = span.status.code == 2
        self.resource = resource


def plain(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class Collector(LocalServer):
    """Answers as `reply` says: a status, or a function that returns one and may wait; `body` is the response."""

    def __init__(self, port=0):
        self.reply = 200
        self.body = {}
        self.fields = []
        self.bytes = b""
        self.received = []
        super().__init__(port=port)

    def handle(self, request):
        body = request.content()
        status = self.reply() if callable(self.reply) else self.reply
        try:
            assert request.path == "/v1/traces" and request.headers["Content-Type"] == "application/json"
            spans = self.spans_of(body)
        except Exception as failure:
            self.failures.append(failure)
            status = 400
        if status == 200:
            self.received += spans
            self.fields.append(dict(request.headers.items()))
        self.bytes += body + str(request.headers).encode()
        request.respond(status, json.dumps(self.body).encode(), "application/json")

    @staticmethod
    def spans_of(body):
        document = json.loads(body, object_hook=with_base64)
        parsed = json_format.ParseDict(document, ExportTraceServiceRequest())
        spans = []
        for resource in parsed.resource_spans:
            for scope in resource.scope_spans:
                assert scope.scope.name == "sluice" and scope.scope.version
                spans += [Span(span, plain(resource.resource.attributes)) for span in scope.spans]
        assert spans
        for span in spans:
            assert 0 < span.start <= span.end and span.name
        return spans

    def find(self, **wanted):
        """Spans with these members or attributes (`_` for a dot)."""

        def value(span, name):
            return getattr(span, name) if hasattr(span, name) else span.attributes.get(name.replace("__", "."))

        return [span for span in self.received if all(value(span, name) == one for name, one in wanted.items())]


def with_base64(one):
    for name, digits in IDS.items():
        if name in one:
            assert re.fullmatch(f"[0-9a-f]{{{digits}}}", one[name]), one
            one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()
    return one
