"""The commands in the documentation, as a reader pastes them."""

import os
import re
import subprocess
from pathlib import Path

from harness.server import BINARY, ROOT

NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
FENCE = re.compile(r"^```(\w*)\s*$")


class Block:
    """A fenced `sh` block. `reason` says why it is not run; `None` if it is."""

    def __init__(self, line, text, reason):
        self.line = line
        self.text = text
        self.reason = reason


def blocks(text):
    """The `sh` blocks of a page, in order."""
    found, opened, language, mark, lines = [], None, "", None, []
    for number, line in enumerate(text.splitlines(), 1):
        if opened is not None:
            if line.strip() == "```":
                if language == "sh":
                    found.append(Block(opened, "\n".join(lines), mark))
                opened, mark = None, None
            else:
                lines.append(line)
        elif fence := FENCE.match(line):
            opened, language, lines = number, fence[1], []
        elif reason := NOT_RUN.fullmatch(line.strip()):
            mark = reason[1]
        elif line.strip():
            mark = None
    assert opened is None, f"the fence in line {opened} is not closed"
    return found


class Network:
    """A network namespace with a loopback interface only, so that pages can use the default ports.

    `prefix` is the command that runs another one in it.
    """

    def __enter__(self):
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        # `cat` keeps the namespace until its standard input closes.
        self.holder = subprocess.Popen(
            ["unshare", *user, "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.is_ready = self.holder.stdout.readline() == "ready\n"
        self.prefix = ["nsenter", "--net", "--target", str(self.holder.pid)]
        if user:
            self.prefix[1:1] = ["--user", "--preserve-credentials"]
        return self

    def __exit__(self, *_):
        self.error = self.holder.communicate()[1]


class Page:
    """Runs the blocks of a page one after another in one shell.

    A command that fails ends the page. `curl` fails for a status of 400 or more, too.
    """

    def __init__(self, path, folder, prefix):
        self.blocks = blocks((ROOT / path).read_text())
        self.folder = Path(folder)
        self.prefix = prefix
        tools = self.folder.parent / f"{self.folder.name}-tools"
        tools.mkdir()
        (tools / "sluice").symlink_to(BINARY)
        (tools / ".curlrc").write_text("fail-with-body\n")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE")}
        self.environment |= {"HOME": str(tools), "CURL_HOME": str(tools), "PATH": f"{tools}:{os.environ['PATH']}"}
        self.tools = tools

    def run(self, timeout=180):
        """Returns the output; the error of a page that failed names the line of its last block."""
        script = ["set -eu"]
        for block in self.blocks:
            if block.reason is None:
                script += [f"echo '== line {block.line}'", block.text]
        # Servers that the page left behind.
        script.insert(0, "trap 'status=$?; set +e; kill $(jobs -p) 2>/dev/null; wait; exit $status' EXIT")
        done = subprocess.run(
            [*self.prefix, "bash", "-c", "\n".join(script)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
        )
        assert done.returncode == 0, f"a command failed with {done.returncode} after:\n{done.stdout[-4000:]}"
        return done.stdout
