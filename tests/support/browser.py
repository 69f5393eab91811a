"""A real Chromium that opens a page, and a collector to which pages report what they could do."""

import contextlib
import http.server
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading


class Collector:
    """An origin of its own. `pages` are served by path; a POST to /report ends up in `reports`. Any page may send one."""

    def __init__(self, pages=None):
        self.pages = pages or {}
        self.reports = queue.Queue()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = outer.pages.get(self.path.partition("?")[0])
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write((body or "").encode())

            def do_POST(self):
                outer.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, host="127.0.0.1"):
        return f"http://{host}:{self.port}"

    def script(self, body):
        """A page that runs `body`, the inside of an async function whose result it reports. attempt(f) gives the value of an
        async function, or the name of the error that it threw."""
        return f"""<!doctype html><meta charset=utf-8><body><script>
const attempt = async (f) => {{ try {{ return await f(); }} catch (error) {{ return "refused: " + error.name; }} }};
(async () => {{
  const result = await attempt(async () => {{ {body} }});
  await fetch("{self.url()}/report", {{method: "POST", mode: "no-cors", body: JSON.stringify(result)}});
}})();
</script>"""

    def next(self):
        return self.reports.get(timeout=300)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def chromium(url, names=()):
    """Shows the page until the body ends. `names` lead to 127.0.0.1."""
    directory = tempfile.mkdtemp(prefix="chromium-")
    rules = ",".join(f"MAP {name} 127.0.0.1" for name in names)
    with open(os.path.join(directory, "chromium.log"), "ab") as log:
        browser = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-port=0", f"--user-data-dir={directory}", *([f"--host-resolver-rules={rules}"] if rules else []), url],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "HOME": str(directory)}, start_new_session=True)
    try:
        yield browser
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, 15)
        browser.wait(60)
        shutil.rmtree(directory, ignore_errors=True)
