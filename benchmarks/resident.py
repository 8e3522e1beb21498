"""Start-up time, and the memory of idle keep-alive connections."""

import http.client
import resource
import socket
import statistics
import time

from common import say
from servers import start_hummingbird, start_nginx, start_sluice


def _starts(hummingbird):
    starts = [(start_nginx, "/constant"), (lambda here: start_sluice(here, "none"), "/healthz")]
    if hummingbird:
        starts.append((lambda here: start_hummingbird(here, hummingbird), "/constant"))
    return starts


def measure_start_up(folder, count, hummingbird):
    """Milliseconds from the start of the process to its first 200, with an empty state each time."""
    times = {}
    for number in range(count):
        for index, (start, path) in enumerate(_starts(hummingbird)):
            began = time.monotonic()
            peer = start(folder / f"{index}-{number}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", peer.port)
                connection.request("GET", path)
                if connection.getresponse().status != 200:
                    raise SystemExit(f"{peer.name}: {path} is not 200")
                times.setdefault(peer.name, []).append((time.monotonic() - began) * 1000)
                connection.close()
            finally:
                peer.stop()
        say(f"start-up: {number + 1} of {count}")
    return {name: {"milliseconds": one, "median": statistics.median(one)} for name, one in times.items()}


def measure_idle(folder, count, hummingbird):
    results = {}
    for index, (start, path) in enumerate(_starts(hummingbird)):
        peer = start(folder / str(index))
        try:
            results[peer.name] = _idle(peer, path, count)
        finally:
            peer.stop()
        say(f"idle connections: {peer.name}")
    return results


def allow_connections(count):
    """Lets this process and the servers that it starts open this many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"{wanted} open files are needed, the hard limit is {hard} (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _idle(peer, path, count):
    """Resident bytes of the server before and after `count` connections that made one request each and stay open."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def resident_with(number):
        clients = []
        try:
            for _ in range(number):
                client = socket.create_connection(("127.0.0.1", peer.port), timeout=30)
                clients.append(client)
                client.sendall(request)
                if not client.recv(4096).startswith(b"HTTP/1.1 200"):
                    raise SystemExit(f"{peer.name}: {path} is not 200")
            return peer.resident()
        finally:
            for client in clients:
                client.close()

    # So that all its processes and threads are there, and what only the start needed is not.
    resident_with(20)
    time.sleep(2)
    before = peer.resident()
    after = resident_with(count)
    return {"connections": count, "before": before, "after": after, "bytesPerConnection": (after - before) / count}
