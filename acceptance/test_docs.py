"""Every command in README.md and docs works as it is pasted.

Each page runs in a directory of its own, in a shell, beside a server with the default ports and the key in
`data/admin.key`, as `scripts/run` leaves it. The server and the shell are in a network namespace of their own.
`<!-- not run: reason -->` above a block leaves it out: it installs something, starts what the test has already started,
or needs something that is not available.
"""

import re
import shutil

import pytest

from harness.daemon import program
from harness.pages import ROOT, Network, Page, blocks
from harness.server import Server

DOCS = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/how-to").glob("*.md"))]
# In a page that needs the files in deploy/, which are changed there in a copy.
ELSEWHERE = "<!-- its commands run in acceptance/test_deploy.py -->"
# The pages with at least one block to run.
PAGES = [
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *DOCS]
    if any(block.reason is None for block in blocks(page.read_text())) and ELSEWHERE not in page.read_text()
]
# A line that begins with a command, perhaps after settings.
COMMAND = re.compile(r" *(export )?([A-Z_]+=\S* )*(sluice|curl|aws|scripts/\w+) \S")
# In a page that starts gateways itself.
ALONE = "<!-- starts its own gateways -->"


@pytest.fixture(scope="module")
def network():
    if not shutil.which("unshare") or not shutil.which("nsenter") or not shutil.which("ip"):
        pytest.skip("needs unshare, nsenter and ip")
    with Network() as network:
        if not network.is_ready:
            pytest.skip("needs the right to make a network namespace")
        yield network


@pytest.mark.parametrize("path", PAGES)
def test_the_commands_of_a_page_work(path, tmp_path, network, report):
    folder = tmp_path / "page"
    folder.mkdir()
    page = Page(path, folder, network.prefix)
    if any("nginx " in block.text for block in page.blocks if block.reason is None):
        (page.tools / "nginx").symlink_to(program("nginx", folders=[ROOT / ".build/nginx/usr/sbin"]))
    # A page for a checkout finds the harness and its Python here.
    (folder / "acceptance").symlink_to(ROOT / "acceptance")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    # The page about objects uploads it.
    (folder / "README.md").symlink_to(ROOT / "README.md")
    if ALONE in (ROOT / path).read_text():
        page.run()
    else:
        settings = {
            "SLUICE_GATEWAY_LISTEN": "127.0.0.1:8080",
            "SLUICE_OBJECT_LISTEN": "127.0.0.1:9000",
        }
        server = Server(folder / "data", environment=settings, prefix=network.prefix)
        # The pages are about a data directory; the namespace cannot reach a database of the test run.
        for name in [name for name in server.environment if name.startswith(("SLUICE_DATABASE_", "SLUICE_MASTER_"))]:
            del server.environment[name]
        with server:
            (folder / "data/admin.key").write_text(server.admin_key + "\n")
            page.run()
    run = sum(block.reason is None for block in page.blocks)
    report(f"{path}: {run} of {len(page.blocks)} blocks were run")
    assert run > 0


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_in_an_sh_block(page):
    """An indented command, or one in a block of another language, would escape the test above."""
    in_blocks = {line for block in blocks(page.read_text()) for line in block.text.splitlines()}
    commands = [line for line in page.read_text().splitlines() if COMMAND.match(line)]
    assert [line for line in commands if line not in in_blocks] == []


def test_a_block_is_left_out_only_with_a_reason():
    page = "a\n```sh\none\n```\n<!-- not run: installs -->\n```sh\ntwo\n```\n\n```json\n{}\n```\n```sh\nthree\n```\n"
    assert [(block.line, block.text, block.reason) for block in blocks(page)] == [
        (2, "one", None),
        (6, "two", "installs"),
        (13, "three", None),
    ]


def test_the_versions_in_the_readme_are_those_that_are_tested():
    pins = dict(re.findall(r"^([\w.-]+)==([\d.]+)$", (ROOT / "acceptance/requirements.txt").read_text(), re.M))
    pins["pyvimeo"] = (ROOT / "acceptance/pyvimeo.txt").read_text().split()[0]
    rows = [line.split("|") for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|")]
    named = [pair for row in rows if len(row) == 5 for pair in re.findall(r"([\w.-]+) (\d+(?:\.\d+)+)", row[3])]
    assert len(named) > 15
    assert {name: pins.get(name.lower()) for name, _ in named} == dict(named)


@pytest.mark.parametrize("command", ["false", "curl -sS http://127.0.0.1:1/", "unset_command", 'echo "$UNSET"'])
def test_a_command_that_fails_fails_its_page(command, tmp_path, monkeypatch):
    (tmp_path / "bad.md").write_text(f"```sh\n{command}\n```\n```sh\ntrue\n```\n")
    folder = tmp_path / "page"
    folder.mkdir()
    with pytest.raises(AssertionError, match="a command failed"):
        Page(tmp_path / "bad.md", folder, []).run()
