"""Loaded by schemathesis: how the content of tus requests is sent."""

import schemathesis


@schemathesis.serializer("application/offset+octet-stream")
def raw(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Who sends this field is sent interim answers (104), which Python's HTTP client takes for the final one."""
    if case.headers:
        case.headers.pop("Upload-Draft-Interop-Version", None)
