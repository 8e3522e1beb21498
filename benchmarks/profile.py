"""Samples the server with perf while wrk sends small requests; prints a table and writes a flame graph.

Run it by `benchmarks/profile`. It needs perf (Debian package linux-perf) and the right to use it.
"""

import argparse
import collections
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import small
from servers import start_sluice

OPERATIONS = {
    "upload": ("create.lua", "/files", 64, "none"),
    "acknowledged": ("create.lua", "/files", 64, "acknowledged"),
    "append": ("create_patch.lua", "/files", 64, "none"),
    "mint": ("mint.lua", "/v1/tencent/signatures", 64, "none"),
}

# What a sample counts for: the first of these, from the innermost frame on, whose pattern matches the frame.
GROUPS = [
    ("kernel: waiting and waking threads", r"^__x64_sys_(futex|epoll|eventfd|sched)|futex|schedule|try_to_wake"),
    ("kernel: network", r"^__x64_sys_(sendto|recvfrom|accept)|^tcp_|^ip_|^net_rx"),
    ("kernel: files", r"^__x64_sys_(p?write|p?read|open|fsync|fdatasync|close|fcntl|newfstat|fsetxattr|sync_file)"),
    ("heap", r"malloc|^cfree|^free$|^_int_|calloc|realloc|swift_slow(Alloc|Dealloc)"),
    ("retain and release", r"^_?swift_(bridgeObject|unknownObject)?_?(retain|release)|RefCount"),
    ("SQLite", r"^sqlite3|^SQLite: "),
    ("GRDB", r"\bGRDB\."),
    ("state", r"\b(SQLiteState|StateRecords)\."),
    ("storage", r"\bDiskStorage\."),
    ("core", r"\bUploadCore\."),
    ("dialects and REST", r"\b(Tus|RESTKit|Gateway|GatewayKit|TencentVOD|ObjectStore)\."),
    ("signatures and digests", r"\b(Signing|Digests)\.|^(EVP_|SHA|sha|HMAC|MD5|md5)"),
    ("HTTP and connections", r"\b(HTTPServer|HTTPWire|Transport)\."),
    ("threads of files and state", r"\bSystemIO\."),
    ("log and metrics", r"\b(Telemetry|MetricsKit|Logging|CoreMetrics)\."),
    ("Foundation", r"\bFoundation(Essentials)?\."),
    ("Swift's tasks and other runtime", r"^_?swift|^swift::|\bSwift\."),
]
PATTERNS = [(name, re.compile(pattern)) for name, pattern in GROUPS]


def parse_options():
    parser = argparse.ArgumentParser(prog="benchmarks/profile", description=__doc__.splitlines()[0])
    parser.add_argument("operation", choices=OPERATIONS, nargs="?", default="upload")
    parser.add_argument("--seconds", type=int, default=10, help="length of the measurement (default 10)")
    parser.add_argument("--svg", type=Path, help="file for the flame graph")
    parser.add_argument("--title", help="of the flame graph")
    parser.add_argument("--directory", type=Path, help="where the server stores (default: in memory)")
    return parser.parse_args()


def record(options, folder):
    """The samples as stacks, outermost frame first, with their counts."""
    script, path, connections, durability = OPERATIONS[options.operation]
    data = folder / "perf.data"
    peer = start_sluice(folder / "server", durability)
    try:
        small.wrk(peer, script, path, 2, connections)
        command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-g", "-p", str(peer.process.pid)]
        perf = subprocess.Popen([*command, "-o", data, "--", "sleep", str(options.seconds)], stderr=subprocess.DEVNULL)
        before = peer.cpu_seconds()
        counts = small.wrk(peer, script, path, options.seconds, connections)
        cpu = peer.cpu_seconds() - before
        if perf.wait() != 0:
            sys.exit("perf record failed: is it allowed here (kernel.perf_event_paranoid)?")
    finally:
        peer.stop()
    return stacks(data), cpu / counts["uploads"] * 1e6, counts["uploads"] / (counts["microseconds"] / 1e6)


def stacks(data):
    command = ["perf", "script", "-i", str(data), "-F", "ip,sym,dso"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
    swift = shutil.which(os.environ.get("SWIFT", "swift"))
    if swift:
        # With the names of modules, by which samples are grouped.
        text = subprocess.run([swift, "demangle"], check=True, input=text, capture_output=True, text=True).stdout
    found = collections.Counter()
    for block in text.split("\n\n"):
        frames = [frame(line) for line in block.splitlines() if line.strip()]
        if frames:
            found[tuple(reversed(frames))] += 1
    return found


def frame(line):
    """A frame of perf's output: address, symbol, and the file in brackets."""
    match = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
    symbol, file = (match[1], match[2]) if match else (line.strip(), "")
    if symbol == "[unknown]":
        symbol = f"[{Path(file).name}]" if file else symbol
    if "sqlite" in file and not symbol.startswith("sqlite3"):
        return f"SQLite: {symbol}"
    return re.sub(r"\+0x[0-9a-f]+$", "", symbol)


def group(stack):
    for one in reversed(stack):
        for name, pattern in PATTERNS:
            if pattern.search(one):
                return name
    return "other"


def table(found):
    total = sum(found.values())
    groups = collections.Counter()
    for stack, count in found.items():
        groups[group(stack)] += count
    print("| where | share |\n|---|---|")
    for name, count in groups.most_common():
        print(f"| {name} | {100 * count / total:.1f} % |")


class Node:
    def __init__(self):
        self.count = 0
        self.children = {}


def tree(found):
    root = Node()
    for stack, count in found.items():
        root.count += count
        node = root
        for one in stack:
            node = node.children.setdefault(one, Node())
            node.count += count
    return root


WIDTH, ROW, SMALLEST = 1200, 16, 1.5


def flame_graph(found, title):
    """A picture without scripts: each frame is as wide as its share; its full name is the tooltip."""
    root = tree(found)
    boxes = []

    def place(node, name, left, level):
        width = WIDTH * node.count / root.count
        if width < SMALLEST:
            return level
        boxes.append((name, left, width, level, node.count))
        deepest = level
        for child, below in sorted(node.children.items()):
            deepest = max(deepest, place(below, child, left, level + 1))
            left += WIDTH * below.count / root.count
        return deepest

    height = (place(root, "all", 0, 0) + 3) * ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="monospace" font-size="10"><text x="4" y="12">{html.escape(title)}</text>'
    ]
    for name, left, width, level, count in boxes:
        top = height - (level + 1) * ROW
        # The same name always has the same colour.
        hue = 15 + sum(map(ord, name)) % 40
        share = 100 * count / root.count
        text = html.escape(name if len(name) * 6.1 <= width else name[: max(0, int(width / 6.1) - 1)])
        lines.append(
            f'<g><title>{html.escape(name)} {share:.1f} %</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="hsl({hue},85%,70%)"/><text x="{left + 2:.1f}" y="{top + 11}">{text}</text></g>'
        )
    return "\n".join([*lines, "</svg>\n"])


def main():
    options = parse_options()
    if not shutil.which("perf"):
        sys.exit("perf is missing: install Debian's package linux-perf")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=options.directory or memory) as folder:
        found, cpu, rate = record(options, Path(folder))
    print(f"{options.operation}: {rate:.0f}/s, {cpu:.0f} us of CPU each, {sum(found.values())} samples\n")
    table(found)
    if options.svg:
        options.svg.write_text(flame_graph(found, options.title or f"sluice: {options.operation}"))


if __name__ == "__main__":
    main()
