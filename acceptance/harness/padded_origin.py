"""An HTTPS server that sends each byte of its content in a TLS record of its own, with padding (RFC 8446, 5.4).

Python's `ssl` cannot pad, so this calls OpenSSL.
"""

import ctypes
import socket
import threading

# What OpenSSL calls SSL_FILETYPE_PEM.
PEM = 1


class PaddedOrigin:
    """Serves `data` to each connection. `block`: of whose multiple each record is, at most 16384; 1 for no padding."""

    def __init__(self, certificate, data, block):
        self.data = data
        # Bytes of content that were sent.
        self.sent = 0
        library = ctypes.CDLL("libssl.so.3")
        pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t

        def function(name, result, *arguments):
            found = library[name]
            found.restype, found.argtypes = result, arguments
            return found

        self.new = function("SSL_new", pointer, pointer)
        self.free = function("SSL_free", None, pointer)
        self.use = function("SSL_set_fd", number, pointer, number)
        self.accept = function("SSL_accept", number, pointer)
        self.read = function("SSL_read", number, pointer, text, number)
        self.write = function("SSL_write", number, pointer, text, number)
        method = function("TLS_server_method", pointer)()
        self.context = function("SSL_CTX_new", pointer, pointer)(method)
        chain = function("SSL_CTX_use_certificate_chain_file", number, pointer, text)
        key = function("SSL_CTX_use_PrivateKey_file", number, pointer, text, number)
        assert chain(self.context, str(certificate.path).encode()) == 1
        assert key(self.context, str(certificate.key_path).encode(), PEM) == 1
        assert function("SSL_CTX_set_block_padding", number, pointer, size)(self.context, block) == 1
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.listen, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Wakes the thread, which then closes it.
        self.listener.shutdown(socket.SHUT_RDWR)

    def listen(self):
        with self.listener:
            while True:
                try:
                    connection, _ = self.listener.accept()
                except OSError:
                    return
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            session = self.new(self.context)
            try:
                self.use(session, connection.fileno())
                if self.accept(session) == 1:
                    self.respond(session)
            finally:
                self.free(session)

    def respond(self, session):
        request = ctypes.create_string_buffer(16384)
        if self.read(session, request, len(request)) <= 0:
            return
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.data)}\r\n\r\n".encode()
        self.write(session, head, len(head))
        for byte in self.data:
            if self.write(session, bytes([byte]), 1) <= 0:
                return
            self.sent += 1
        # Until the client closes the connection.
        self.read(session, request, len(request))
