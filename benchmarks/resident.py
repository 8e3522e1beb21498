"""Start-up time of Sluice, and what idle keep-alive connections cost a server in memory."""

import http.client
import re
import resource
import socket
import statistics
import time
from pathlib import Path


def start_up(start, count):
    """Milliseconds from the start of the process to its first 200 on /healthz, with an empty state each time."""
    times = []
    for number in range(count):
        began = time.monotonic()
        peer = start(number)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", peer.port)
            connection.request("GET", "/healthz")
            if connection.getresponse().status != 200:
                raise SystemExit("/healthz is not 200")
            times.append((time.monotonic() - began) * 1000)
            connection.close()
        finally:
            peer.stop()
    return {"milliseconds": times, "median": statistics.median(times)}


def resident(peer):
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in peer.processes()]
    return sum(int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024 for text in texts)


def idle(peer, path, count):
    """Resident bytes of the server before and after `count` connections that made one request each and stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 100, hard), hard))
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    before, clients = resident(peer), []
    try:
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", peer.port), timeout=30)
            clients.append(client)
            client.sendall(request)
            if not client.recv(4096).startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{peer.name}: {path} is not 200")
        after = resident(peer)
    finally:
        for client in clients:
            client.close()
    return {"connections": count, "before": before, "after": after, "bytesPerConnection": (after - before) / count}
