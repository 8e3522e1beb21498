"""HTTP/1.1 over a raw socket: what is sent is exactly what the test says."""

import socket
import time


class Reply:
    def __init__(self, version, status, reason, fields, body):
        self.version = version
        self.status = status
        self.reason = reason
        self.fields = fields
        self.body = body

    def __getitem__(self, name):
        """The value of a field; repeated ones are joined; None for a missing field."""
        values = [value for key, value in self.fields if key == name.lower()]
        return ", ".join(values) if values else None

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:200]!r}>"


class Closed(Exception):
    """The server closed the connection; `partial` has the bytes before."""

    def __init__(self, partial=b"", was_reset=False):
        super().__init__(f"closed{' by reset' if was_reset else ''} after {partial[:200]!r}")
        self.partial = partial
        self.was_reset = was_reset


class Wire:
    """One connection, to a host and port or to the path of a Unix socket. `opening`: sent before TLS."""

    def __init__(self, address, timeout=15, context=None, opening=b""):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(opening)
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        if isinstance(data, str):
            data = data.encode("latin-1")
        self.socket.sendall(data)

    def request(self, method, target, fields=(), body=b""):
        """Sends a request with Host and, for a body or a method that has one, Content-Length."""
        self.send(head(method, target, fields, body) + body)

    def exchange(self, method, target, fields=(), body=b""):
        self.request(method, target, fields, body)
        return self.reply(method)

    # Reading

    def _fill(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            raise Closed(self.buffer, was_reset=True) from None
        if not data:
            raise Closed(self.buffer)
        self.buffer += data

    def _take(self, count):
        # Not in the buffer, of which each addition makes a copy.
        taken = bytearray()
        while True:
            missing = count - len(taken)
            taken += self.buffer[:missing]
            self.buffer = self.buffer[missing:]
            if len(taken) == count:
                return bytes(taken)
            try:
                self._fill()
            except Closed as end:
                raise Closed(bytes(taken), was_reset=end.was_reset) from None

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode("latin-1")

    def _fields(self):
        fields = []
        while line := self._line():
            name, value = line.split(":", 1)
            fields.append((name.lower(), value.strip()))
        return fields

    def interim(self):
        """The next head, whatever its status, without a body."""
        version, status, *reason = self._line().split(" ", 2)
        return Reply(version, int(status), " ".join(reason), self._fields(), b"")

    def reply(self, method="GET", skip_interim=True):
        """The next answer."""
        answer = self.interim()
        while skip_interim and 100 <= answer.status < 200:
            answer = self.interim()
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return answer
        if (answer["transfer-encoding"] or "").lower() == "chunked":
            answer.body = self._chunks()
            answer.fields += self._fields()
        elif answer["content-length"] is not None:
            answer.body = self._take(int(answer["content-length"]))
        else:
            answer.body = self.rest()
        return answer

    def _chunks(self):
        body = bytearray()
        while size := int(self._line().split(";")[0], 16):
            body += self._take(size)
            assert self._take(2) == b"\r\n"
        return bytes(body)

    def rest(self):
        """Everything until the server closes."""
        try:
            while True:
                self._fill()
        except Closed:
            taken, self.buffer = self.buffer, b""
            return taken

    def is_closed(self, within=5):
        """Whether the server closes, with no further byte, within some seconds."""
        self.socket.settimeout(within)
        try:
            self._fill()
        except Closed:
            return True
        except TimeoutError:
            return False
        return False

    def is_silent(self, seconds=0.3):
        """Whether nothing arrives for a while."""
        self.socket.settimeout(seconds)
        try:
            self._fill()
        except TimeoutError:
            return not self.buffer
        except Closed:
            return False
        finally:
            self.socket.settimeout(15)
        return False


def head(method, target, fields=(), body=b"", version="HTTP/1.1"):
    """The bytes of a request head."""
    lines = [f"{method} {target} {version}"]
    names = {name.lower() for name, _ in fields}
    if "host" not in names:
        lines.append("Host: 127.0.0.1")
    lines += [f"{name}: {value}" for name, value in fields]
    if (body or method in ("POST", "PATCH", "PUT")) and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def until(condition, timeout=60, interval=None):
    """Waits until `condition()` is true and returns its value.

    Without an interval it looks less often the longer it takes: a look is often a request.
    """
    begin = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begin
        assert waited < timeout, f"not within {timeout} s"
        time.sleep(interval or max(0.01, min(waited / 20, 0.05)))
    return value
