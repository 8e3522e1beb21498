"""What is made at run time: C programs, the Hummingbird application, a certificate, files to send; and the clients."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from common import HERE, MEBIBYTE, say

# The cipher that OpenSSL's clients and servers select by default.
CIPHER = "TLS_AES_256_GCM_SHA384"


def compile_c(source, folder, *options):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        sys.exit("there is no C compiler: scripts/setup --bench installs one")
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / Path(source).stem
    command = [compiler, "-O2", "-Wall", "-Wextra", "-pthread", *options, "-o", program, HERE / source]
    subprocess.run(command, check=True)
    return program


def build_hummingbird():
    """The program; the first build takes minutes."""
    package = HERE / "peers" / "hummingbird-peer"
    command = [os.environ.get("SWIFT", "swift"), "build", "--package-path", str(package), "-c", "release"]
    say("building the Hummingbird application: minutes, the first time")
    subprocess.run(command, check=True, stdout=sys.stderr)
    found = subprocess.run([*command, "--show-bin-path"], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip()) / "hummingbird-peer"


def make_certificate(folder):
    """certificate.pem and key.pem for 127.0.0.1 in the folder."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", folder / "key.pem"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command = ["openssl", "req", "-x509", "-days", "2", *key, *name, "-out", folder / "certificate.pem"]
    subprocess.run(command, check=True, capture_output=True)


def make_source(path, size):
    """A file that does not compress, and is in the page cache."""
    with open(path, "wb") as file:
        for _ in range(size // MEBIBYTE):
            file.write(os.urandom(MEBIBYTE))
        file.write(os.urandom(size % MEBIBYTE))
    with open(path, "rb") as file:
        while file.read(16 * MEBIBYTE):
            pass
    return path


def curl(url, source, method, headers, certificate=None):
    """Seconds that curl took, and the cipher (None without TLS); ends the program unless the response is a success."""
    command = ["curl", "-sS", "-o", os.devnull, "-X", method, "-T", str(source), "-w", "%{time_total} %{http_code}"]
    for header in ("Expect:", *headers):
        command += ["-H", header]
    if certificate:
        command += ["-v", "--cacert", str(certificate), "--tlsv1.3", "--tls13-ciphers", CIPHER]
    done = subprocess.run([*command, url], capture_output=True, text=True, errors="replace")
    seconds, _, status = done.stdout.partition(" ")
    if done.returncode != 0 or not status.startswith("2"):
        sys.exit(f"{' '.join(command)} {url}: {done.stdout} {done.stderr}")
    found = re.search(r"SSL connection using (\S+ / \S+)", done.stderr)
    return float(seconds), found and found[1]


def patch_chunks(program, peer, size, chunk, connections, paths):
    """Seconds, PATCHes, and the median and the 99th percentile of their times in microseconds; see the program."""
    command = [str(program), str(peer.port), str(size), str(chunk), str(connections)]
    command.append(str(min(2, connections)))
    done = subprocess.run(command, input="".join(f"{one}\n" for one in paths), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{peer.name}: {' '.join(command)}: {done.stderr}\n{peer.log_tail()}")
    seconds, patches, median, percentile = map(float, done.stdout.split())
    return seconds, int(patches), median, percentile


def send_files(program, peer, source, method, headers, targets):
    """Seconds until the first and until the last answer, of one request on a connection of its own for each target."""
    command = [str(program), str(peer.port), str(source), method, "2", *headers]
    done = subprocess.run(command, input="".join(f"{one}\n" for one in targets), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{peer.name}: {' '.join(command)}: {done.stderr}\n{peer.log_tail()}")
    first, last = map(float, done.stdout.split())
    return first, last
