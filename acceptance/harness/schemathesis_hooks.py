"""Loaded by schemathesis: how the content of tus requests is sent."""

import schemathesis


@schemathesis.serializer("application/offset+octet-stream")
def raw(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
