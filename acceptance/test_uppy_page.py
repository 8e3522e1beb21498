"""The pages of docs/how-to/uppy-page.md in a real browser, with a module in place of Uppy that makes the same calls."""

import re
import sys

import pytest

from harness.api import API
from harness.browser import BROWSER, dump
from harness.daemon import Daemon, free_port
from harness.data import sha256
from harness.object_client import ObjectServer
from harness.server import ROOT

pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no browser: install chromium")

SIZE = 300_000
DATA = (bytes(range(251)) * (SIZE // 251 + 1))[:SIZE]
# The interface of Uppy 5 as far as the pages use it. What happens is written into the page.
STAND_IN = """
const text = new Uint8Array(300_000).map((_, index) => index % 251)
const files = [new File([text], 'clip.mp4', {type: 'video/mp4'}), new File(['hello'], 'note.txt', {type: 'text/plain'})]
const say = words => document.body.append(`[${words}]`)
const encode = text => btoa(String.fromCodePoint(...new TextEncoder().encode(text)))

export const Dashboard = 'Dashboard', GoldenRetriever = 'GoldenRetriever', Tus = 'Tus', AwsS3 = 'AwsS3'

const senders = {
  async Tus(file, uppy, options) {
    const send = async (method, url, headers, body) => {
      headers['Tus-Resumable'] = '1.0.0'
      await options.onBeforeRequest({
        getMethod: () => method, setHeader: (name, value) => { headers[name] = value },
      })
      const answer = await fetch(url, {method, headers, body})
      if (answer.ok) return answer
      throw new Error(`tus: unexpected response, response text: ${await answer.text()}, request id: n/a`)
    }
    const meta = {...uppy.options.meta, name: file.name, type: file.type}
    const fields = options.allowedMetaFields.map(name => [name, meta[name]])
    fields.push(['filename', file.name], ['filetype', file.type])
    const metadata = fields.map(([name, value]) => `${name} ${encode(String(value))}`).join(',')
    const created = await send('POST', options.endpoint, {'Upload-Length': file.size, 'Upload-Metadata': metadata})
    const url = created.headers.get('Location')
    const type = {'Content-Type': 'application/offset+octet-stream'}
    await send('PATCH', url, {...type, 'Upload-Offset': 0}, file.slice(0, 100_000))
    const offset = (await send('HEAD', url, {})).headers.get('Upload-Offset')
    await send('PATCH', url, {...type, 'Upload-Offset': offset}, file.slice(Number(offset)))
  },
  async AwsS3(file, uppy, options) {
    const call = async (method, path, body) => {
      const headers = {...options.headers, 'Content-Type': 'application/json'}
      const answer = await fetch(`${options.endpoint}/s3/multipart${path}`, {method, headers, body})
      const document = await answer.json()
      if (!answer.ok) throw new Error(document.message)
      return document
    }
    const metadata = {name: file.name, type: file.type}
    const {key, uploadId} = await call('POST', '', JSON.stringify({filename: file.name, type: file.type, metadata}))
    const query = `?key=${encodeURIComponent(key)}`
    const {url} = await call('GET', `/${uploadId}/1${query}`)
    const part = await fetch(url, {method: 'PUT', body: file})
    if (!part.ok) throw Object.assign(new Error('Non 2xx'), {source: {responseText: await part.text()}})
    const parts = [{PartNumber: 1, ETag: part.headers.get('ETag')}]
    await call('POST', `/${uploadId}/complete${query}`, JSON.stringify({parts}))
  },
}

export class Uppy {
  plugins = {}
  listeners = {}
  steps = []

  constructor(options) {
    this.options = options
    setTimeout(() => this.upload())
  }

  use(plugin, options) {
    this.plugins[plugin] = options
    return this
  }

  on(event, listener) { this.listeners[event] = listener }
  addPreProcessor(step) { this.steps.push(step) }
  info({message}) { say(message) }

  getPlugin(id) {
    if (id === 'AwsS3Multipart') return {setOptions: options => Object.assign(this.plugins.AwsS3, options)}
  }

  async upload() {
    for (const step of this.steps) await step()
    const plugin = Object.keys(this.plugins).find(name => senders[name])
    for (const file of files) {
      try {
        await senders[plugin](file, this, this.plugins[plugin])
        say(`${file.name} is complete`)
      } catch (error) {
        this.listeners['upload-error'](file, error)
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The gateway, and the origin of the how-to's app, which serves a stand-in for Uppy."""
    folder = tmp_path_factory.mktemp("uppy")
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    text = (ROOT / "docs/how-to/uppy-page.md").read_text()
    files = {name: body for name, _, body in re.findall(r"^cat > (\S+) <<'(\w+)'\n(.*?)^\2\n", text, re.M | re.S)}
    assert sorted(files) == ["app.py", "page/index.html", "page/objects.js", "page/upload.js"]
    modules = set(re.findall(r"from '(https://\S+)'", text))
    assert len(modules) == 1
    environment = {"SLUICE_CORS_ORIGINS": origin}
    with ObjectServer(folder / "data", free_port(), environment=environment) as gateway:
        (folder / "page").mkdir()
        files["page/index.html"] = files["page/index.html"].replace(
            "<script", f'<script type="importmap">{{"imports": {{"{modules.pop()}": "/uppy.mjs"}}}}</script><script'
        )
        files["page/objects.html"] = files["page/index.html"].replace("upload.js", "objects.js")
        files["page/uppy.mjs"] = STAND_IN
        for name, body in files.items():
            body = body.replace("http://127.0.0.1:8080", gateway.url)
            (folder / name).write_text(body.replace('"127.0.0.1", 8000', f'"127.0.0.1", {port}'))
        app = Daemon(
            "app",
            [sys.executable, "app.py"],
            log=folder / "app.log",
            environment={"SLUICE": gateway.url, "SLUICE_API_KEY": gateway.admin_key},
            cwd=folder,
        )
        app.start().wait_for_port(port)
        yield gateway, origin
        app.kill()


@pytest.mark.parametrize("name", ["index.html", "objects.html"])
def test_a_page_uploads_and_shows_why_a_file_is_refused(name, site, tmp_path):
    gateway, origin = site
    api = API(gateway.url, gateway.admin_key)
    shown = dump(f"{origin}/{name}", tmp_path / "profile")
    assert "[clip.mp4 is complete]" in shown, shown
    assert re.search(r"\[note\.txt: The media type must be declared .* be one of: video/\*\.\]", shown), shown
    upload = api.get("/v1/uploads?limit=1").json()["uploads"][0]
    assert (upload["subject"], upload["state"], upload["length"]) == ("user-42", "completed", SIZE)
    if name == "index.html":
        assert upload["metadata"] == {
            "caption": "", "filename": "clip.mp4", "filetype": "video/mp4", "name": "clip.mp4", "type": "video/mp4",
        }  # fmt: skip
    assert sha256(api.get(f"/media/{upload['id']}").content) == sha256(DATA)
