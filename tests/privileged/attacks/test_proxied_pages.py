"""Pages that a sandbox serves through the server, in the browser of a user, against the API and the other sandboxes there."""

import json

import httpx
import pytest

from browser import Collector, chromium
from sandboxd_process import Sandboxd
from server_process import Server

pytestmark = pytest.mark.wall("Pages of sandboxes and the API", second="keys are in no cookie and no storage of the API")

PAGE = "a page of a sandbox"
#  A program inside: answers every request with the fields and the body that the file /tmp/answer says, and remembers what it saw.
SERVER = '''
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        given = json.load(open("/tmp/answer"))
        seen = {"method": self.command, "path": self.path, "headers": list(self.headers.items()), "body": body}
        path = self.path.partition("?")[0]
        answer = given.get(path, {"fields": [["Content-Type", "application/json"]], "body": json.dumps(seen)})
        self.send_response(200)
        for name, value in answer["fields"]:
            self.send_header(name, value)
        data = answer["body"].encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    do_POST = do_OPTIONS = do_PUT = do_GET
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
'''


class Site:
    """A sandbox with a web server on port 8000 that says what an attack wants it to say."""

    def __init__(self, server):
        self.server = server
        self.id = server.create()["id"]
        self.serve({})
        server.run(self.id, f"cat > /tmp/site.py <<'EOF'\n{SERVER}\nEOF")
        server.run(self.id, "python3 /tmp/site.py", background=True)
        while httpx.get(self.by_path + "/", trust_env=False).status_code == 502:
            pass  # it has not begun to listen

    def serve(self, answers):
        """{path: (fields, body)}"""
        text = json.dumps({path: {"fields": fields, "body": body} for path, (fields, body) in answers.items()})
        self.server.run(self.id, f"cat > /tmp/answer.new <<'EOF'\n{text}\nEOF\nmv /tmp/answer.new /tmp/answer")

    @property
    def by_path(self):
        return f"{self.server.url}/sandboxes/{self.id}/proxy/8000"

    @property
    def host(self):
        return f"{self.id}-8000.localhost:{self.server.port}"

    def ask(self, path="/", host=None, method="GET", **options):
        """By a host name: the test's resolver need not know it."""
        headers = {**options.pop("headers", {}), "Host": host or self.host}
        return httpx.request(method, self.server.url + path, headers=headers, trust_env=False, **options)


@pytest.fixture(scope="module", params=["", "a-key"], ids=["no_key", "key"])
def server(request):
    daemon = Sandboxd(settings={"network": {"subnet": "10.98.0.0/16", "table": "osb_test_page", "interface_prefix": "osbp-"}})
    made = Server(daemon, key=request.param)
    yield made
    made.remove_all()
    made.close()
    daemon.close()


@pytest.fixture(scope="module")
def site(server):
    return Site(server)


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


HTML = ["Content-Type", "text/html"]
ORIGIN_WIDE = ["Service-Worker-Allowed: /", "service-worker-allowed: /", 'Clear-Site-Data: "*"', 'clear-site-data: "cookies"',
               "Strict-Transport-Security: max-age=99; includeSubDomains", 'Alt-Svc: h2="evil.example.com:443"',
               'Report-To: {"endpoints":[]}', 'NEL: {"include_subdomains":true}', 'Reporting-Endpoints: a="https://evil.example.com/"']


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("field", ORIGIN_WIDE, ids=range(len(ORIGIN_WIDE)))
def test_a_field_for_the_whole_origin_does_not_get_through(site, field):
    name, _, value = field.partition(": ")
    site.serve({"/": ([HTML, [name, value], [name, value], ["X-Other", "kept"]], "x")})
    answer = httpx.get(site.by_path + "/", trust_env=False)
    assert answer.headers["X-Other"] == "kept" and name not in answer.headers


COOKIES = ["a=b; Path=/", "a=b", "a=b; Path=/v1/sandboxes", "a=b; path=/; PATH=/sandboxes", "a=b; Domain=localhost; Path=/",
           "a=b; Path=/sandboxes/{id}/proxy/80000", "a=b; Path=/sandboxes/{id}/proxy/800", "a=b;Path=", "a=b; Path", "__Host-a=b; Secure; Path=/"]


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("cookie", COOKIES, ids=range(len(COOKIES)))
def test_a_cookie_does_not_leave_the_path_of_the_sandbox(site, cookie):
    site.serve({"/": ([HTML, ["Set-Cookie", cookie.format(id=site.id)]], "x")})
    for prefix in ("", "/v1"):
        path = f"{prefix}/sandboxes/{site.id}/proxy/8000"
        given = httpx.get(site.server.url + path + "/", trust_env=False).headers["Set-Cookie"]
        attributes = [part.strip().split("=", 1) for part in given.split(";")[1:]]
        assert [value for name, *value in attributes if name.lower() == "path"] == [[path]], given
        assert all(name.lower() != "domain" for name, *_ in attributes), given


@pytest.mark.attack(by=PAGE)
def test_a_cookie_does_not_leave_the_host_of_the_sandbox(site):
    site.serve({"/": ([HTML, ["Set-Cookie", "a=b; Domain=localhost; Path=/"]], "x")})
    assert site.ask().headers["Set-Cookie"] == "a=b; Path=/"


TYPES = ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/pdf", "application/json, text/html", "TEXT/HTML;x",
         "unknown/unknown", "", None]


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("type", TYPES, ids=range(len(TYPES)))
def test_a_document_below_a_path_has_not_the_origin_of_the_api(site, type):
    fields = [] if type is None else [["Content-Type", type]]
    site.serve({"/": (fields + [["Content-Security-Policy", "sandbox allow-same-origin allow-scripts"]], "<p>x")})
    policies = httpx.get(site.by_path + "/", trust_env=False).headers.get_list("Content-Security-Policy")
    assert any(each.startswith("sandbox ") and "allow-same-origin" not in each for each in policies), policies


@pytest.mark.attack(by="a program in a sandbox")
@pytest.mark.parametrize("by", ["path", "host"])
def test_a_port_sees_no_token_of_execd_and_no_key(site, by):
    site.serve({})
    secrets = {"X-EXECD-ACCESS-TOKEN": "a-token", "OPEN-SANDBOX-API-KEY": "a-key", "Cookie": "c=1", "Authorization": "Bearer x"}
    ask = site.ask if by == "host" else lambda path, headers: httpx.get(site.by_path + path, headers=headers, trust_env=False)
    seen = {name.lower(): value for name, value in ask("/", headers=secrets).json()["headers"]}
    assert "x-execd-access-token" not in seen and "open-sandbox-api-key" not in seen
    #  Cookies and passwords of the API's host stay there; those of the sandbox's own host are for it.
    assert ("cookie" in seen, "authorization" in seen) == ((True, True) if by == "host" else (False, False))
    assert (seen["host"] == site.host) == (by == "host")


HOSTS = ["{id}-8000.localhost", "x.{id}-8000.localhost:{port}", "{id}-8000.LOCALHOST.", "{upper}-8000.localhost"]


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("host", HOSTS, ids=range(len(HOSTS)))
def test_the_host_of_a_sandbox_has_no_route_of_the_api(site, host):
    """So that the API is another origin to the page, whatever path it asks for."""
    site.serve({})
    host = host.format(id=site.id, upper=site.id.upper(), port=site.server.port)
    for path in ("/v1/sandboxes", "/health", "/docs", "/metrics", f"/sandboxes/{site.id}/proxy/44772/ping", "/a?b=c"):
        seen = site.ask(path, host, headers={"OPEN-SANDBOX-API-KEY": site.server.key or "x"}).json()
        assert seen["path"] == path and seen["method"] == "GET"
    assert site.ask("/v1/sandboxes", host, "OPTIONS").json()["method"] == "OPTIONS"


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("host", ["{id}-0.localhost", "{id}-08000.localhost", "{id}-65536.localhost", "{id}-8000.localhost.evil.example.com",
                                  "00000000-0000-0000-0000-000000000000-8000.localhost", "{id}-44773.localhost"], ids=range(6))
def test_a_host_that_names_no_port_of_a_sandbox_leads_to_none(site, host):
    answer = site.ask("/never", host.format(id=site.id))
    assert answer.status_code in (401, 403, 404, 502), answer.text


@pytest.mark.attack(by=PAGE)
def test_execd_asks_for_its_token_under_its_host_too(site):
    host = f"{site.id}-44772.localhost"
    answer = site.ask("/command", host, "POST", json={"command": "id"}, headers={"Origin": f"http://{site.host}"})
    assert answer.status_code == 401
    assert site.ask("/ping", host, headers=site.server.token(site.id)).status_code == 200


# --- in a real browser

ATTACKS = """
  const api = "http://localhost:PORT", prefix = location.pathname;
  const out = {origin: self.origin};
  const read = (url, options) => attempt(async () => { const got = await fetch(url, options); return got.type + " " + got.status; });
  out.list = await read(api + "/v1/sandboxes", {credentials: "include"});
  out.relative = await read(new URL("/v1/sandboxes", location.href), {credentials: "include"});
  out.create = await read(api + "/v1/sandboxes", {method: "POST", headers: {"Content-Type": "application/json"}, body: CREATE});
  out.form = await read(api + "/v1/sandboxes", {method: "POST", mode: "no-cors", body: CREATE});
  out.blob = await read(api + "/v1/sandboxes", {method: "POST", mode: "no-cors", body: new Blob([CREATE])});
  out.keyed = await read(api + "/v1/sandboxes", {headers: {"OPEN-SANDBOX-API-KEY": "KEY"}});
  out.socket = await attempt(() => new Promise((done) => {
    const socket = new WebSocket("ws://localhost:PORT/v1/sandboxes");
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
  }));
  out.worker = await attempt(async () => {
    await navigator.serviceWorker.register("sw.js", {scope: "/"});
    return "registered";
  });
  out.worker_here = await attempt(async () => {
    await navigator.serviceWorker.register("sw.js");
    return "registered";
  });
  out.cookie = await attempt(async () => document.cookie);
  out.storage = await attempt(async () => String(localStorage.getItem("secret")));
  return out;
"""
CREATE = json.dumps({"image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "resourceLimits": {}})


def attacks(collector, server):
    text = ATTACKS.replace("PORT", str(server.port)).replace("CREATE", json.dumps(CREATE)).replace("KEY", server.key)
    return collector.script(text)


def others(server, *known):
    return [each["id"] for each in server.client.get("/v1/sandboxes").json()["items"] if each["id"] not in known]


def refused(value):
    """A page got no answer that it can read; "opaque" is how a browser calls an answer that it does not show."""
    return value.startswith("refused") or value == "opaque 0"


@pytest.mark.attack(by=PAGE)
@pytest.mark.parametrize("by", ["path", "host"])
def test_a_hostile_page_in_a_browser_gets_nothing_of_the_api(server, site, collector, by):
    worker = "self.addEventListener('fetch', (event) => event.respondWith(new Response('captured')));"
    site.serve({
        "/": ([HTML, ["Clear-Site-Data", '"*"'], ["Set-Cookie", "planted=1; Path=/"]], attacks(collector, server)),
        "/sw.js": ([["Content-Type", "text/javascript"], ["Service-Worker-Allowed", "/"]], worker)})
    address = f"http://localhost:{server.port}/sandboxes/{site.id}/proxy/8000/" if by == "path" else f"http://{site.host}/"
    with chromium(address):
        got = collector.next()
    assert got["origin"] == ("null" if by == "path" else f"http://{site.host}")
    for way in ("list", "create", "form", "blob", "keyed", "socket"):
        assert refused(got[way]), (way, got)
    #  On its own host this is a page of its own: "/v1/sandboxes" is answered by the sandbox, and a worker is for that host.
    assert got["relative"] == "basic 200" if by == "host" else refused(got["relative"]), got
    for way in ("worker", "worker_here"):
        assert got[way] == "registered" if by == "host" else refused(got[way]), got
    if by == "path":
        assert refused(got["cookie"]) and refused(got["storage"]), got
    else:
        assert "secret" not in got["cookie"] and got["storage"] == "null"
    assert others(server, site.id) == []


@pytest.mark.attack(by=PAGE)
def test_a_page_below_a_path_clears_no_cookie_of_the_user(server, site, collector):
    """All ports of a host share their cookies: the user has one, comes to the hostile page, and goes on to another page."""
    here = f"http://localhost:{collector.port}"
    hostile = f"http://localhost:{server.port}/sandboxes/{site.id}/proxy/8000/"
    collector.pages["/keep"] = f'<script>document.cookie = "secret=of-the-user; path=/"; location = "{hostile}";</script>'
    collector.pages["/look"] = collector.script("return document.cookie;")
    site.serve({"/": ([HTML, ["Clear-Site-Data", '"cookies", "storage"'], ["Set-Cookie", "planted=1; Path=/"]],
                      f'<script>location = "{here}/look";</script>')})
    with chromium(f"{here}/keep"):
        assert collector.next() == "secret=of-the-user"


@pytest.mark.attack(by="a web page")
@pytest.mark.parametrize("name", ["evil.example.com", "localhost", "x.localhost"])
def test_a_page_of_another_origin_in_a_browser_gets_nothing_of_the_api(server, collector, name):
    collector.pages["/"] = attacks(collector, server)
    before = set(others(server))
    with chromium(f"{collector.url(name)}/", names=["evil.example.com"]):
        got = collector.next()
    for way in ("list", "create", "form", "blob", "keyed", "socket"):
        assert refused(got[way]), (way, got)
    assert set(others(server)) == before


@pytest.mark.attack(by="a web page")
def test_a_name_that_resolves_to_the_server_in_a_browser_shows_nothing(server, collector):
    """DNS rebinding: the page's own name leads to the server, so that the browser takes the API for the page's origin."""
    frame = f"http://rebound.example.com:{server.port}/v1/sandboxes"
    collector.pages["/"] = collector.script(
        f'const got = await attempt(async () => (await fetch("{frame}", {{mode: "no-cors"}})).type); return got;')
    with chromium(f"{collector.url('rebound.example.com')}/", names=["rebound.example.com"]):
        assert collector.next() in ("opaque", "refused: TypeError")
    answer = httpx.get(f"{server.url}/v1/sandboxes", headers={"Host": f"rebound.example.com:{server.port}",
                                                              "Sec-Fetch-Site": "same-origin"}, trust_env=False)
    assert answer.status_code == (403 if not server.key else 401)


@pytest.mark.attack(by="nobody: pages that must get on")
def test_a_page_on_the_host_of_its_sandbox_is_an_ordinary_page(site, collector):
    """Scripts of modules, its own API, cookies, storage and a WebSocket's address all work there."""
    page = collector.script("""
      const module = await import("/part.js");
      document.cookie = "mine=1";
      localStorage.setItem("mine", "1");
      const seen = await (await fetch("/api", {method: "POST", credentials: "include", headers: {Authorization: "Bearer x"}})).json();
      return {module: module.value, cookie: document.cookie, stored: localStorage.getItem("mine"),
              sent: Object.fromEntries(seen.headers.map(([name, value]) => [name.toLowerCase(), value]))};""")
    site.serve({"/": ([HTML, ["Set-Cookie", "given=1; Path=/"]], page),
                "/part.js": ([["Content-Type", "text/javascript"]], "export const value = 42;")})
    with chromium(f"http://{site.host}/"):
        got = collector.next()
    assert (got["module"], got["stored"]) == (42, "1")
    assert "mine=1" in got["cookie"] and "given=1" in got["cookie"]
    assert "mine=1" in got["sent"]["cookie"] and got["sent"]["authorization"] == "Bearer x"
    assert got["sent"]["host"] == site.host and got["sent"]["origin"] == f"http://{site.host}"
