"""Files and directories of execd over HTTP, as the contract has them."""

import io
import json
import os
import pathlib
import socket
import stat
import subprocess
import tarfile
import threading
import urllib.parse
import uuid
from datetime import datetime

import httpx
import pytest

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="mounts and owners need root")


def expect_error(response, status, code):
    assert response.status_code == status, response.text
    body = response.json()
    assert body["code"] == code
    assert body["message"]
    assert response.headers["content-type"].startswith("application/json")


def expect_empty(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-length"] == "0"


def upload(client, *pairs, **options):
    """pairs of (metadata, content), interleaved as the SDKs send them."""
    parts = []
    for metadata, content in pairs:
        parts.append(("metadata", ("metadata", json.dumps(metadata), "application/json")))
        parts.append(("file", (metadata.get("path", "x"), content, "application/octet-stream")))
    return client.post("/files/upload", files=parts, **options)


def raw_path(path):
    """Percent-encodes the bytes of a path, also those that are no UTF-8."""
    return urllib.parse.quote(os.fsencode(path))


class Tmpfs:
    def __init__(self, path, size):
        self.path = path
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.path)], check=True)


class BindMount:
    def __init__(self, source, target):
        self.target = target
        subprocess.run(["mount", "--bind", str(source), str(target)], check=True)

    def __enter__(self):
        return self.target

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.target)], check=True)


# --- info


def test_info_has_all_fields_and_the_paths_as_given(execd):
    file = execd.tmp / "f.txt"
    file.write_text("12345")
    file.chmod(0o4640)
    link = execd.tmp / "link"
    link.symlink_to("nowhere")
    odd = f"{execd.tmp}//./f.txt"
    response = execd.client.get("/files/info", params={"path": [str(file), odd, str(link), str(execd.tmp)]})
    assert response.status_code == 200
    infos = response.json()
    assert set(infos) == {str(file), odd, str(link), str(execd.tmp)}
    info = infos[str(file)]
    assert info["path"] == infos[odd]["path"] == str(file)
    assert info["type"] == "file"
    assert info["size"] == 5
    assert info["mode"] == 640
    assert infos[str(link)]["type"] == "symlink"
    assert infos[str(execd.tmp)]["type"] == "directory"
    for field, ns in (("modified_at", file.stat().st_mtime_ns), ("created_at", file.stat().st_ctime_ns)):
        moment = datetime.fromisoformat(info[field])
        assert abs(moment.timestamp() - ns / 1e9) < 0.001
        assert moment.tzinfo is not None
    assert info["owner"] == file.owner()
    assert info["group"] == file.group()


def test_info_without_paths_is_an_empty_object(execd):
    assert execd.client.get("/files/info").json() == {}


def test_info_of_a_missing_file_fails_as_a_whole(execd):
    response = execd.client.get("/files/info", params={"path": [str(execd.tmp), str(execd.tmp / "none")]})
    expect_error(response, 404, "FILE_NOT_FOUND")


@needs_root
def test_owners_without_a_name_are_numbers(execd):
    file = execd.tmp / "f"
    file.touch()
    os.chown(file, 54321, 54322)
    info = execd.client.get("/files/info", params={"path": str(file)}).json()[str(file)]
    assert (info["owner"], info["group"]) == ("54321", "54322")


def test_special_files_are_other(execd):
    os.mkfifo(execd.tmp / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(execd.tmp / "sock"))
        paths = [str(execd.tmp / "fifo"), str(execd.tmp / "sock"), "/dev/null"]
        infos = execd.client.get("/files/info", params={"path": paths}).json()
    assert {infos[p]["type"] for p in paths} == {"other"}


@pytest.mark.parametrize("path", ["a%00b", "$NO_SUCH_VARIABLE_HERE/x", "${NO_SUCH_VARIABLE_HERE}", "/" + "a" * 5000,
                                  "/" + "b" * 300, "/" + "c/" * 3000])
@pytest.mark.parametrize("route", ["/files/info", "/files/download", "/files/search", "/directories/list",
                                   "/directories/archive"])
def test_paths_that_cannot_be(execd, route, path):
    response = execd.client.get(f"{route}?path={path}")
    if path.endswith("c/"):
        assert response.status_code in (404, 500)
        assert set(response.json()) >= {"code", "message"}
    else:
        expect_error(response, 500, "RUNTIME_ERROR")


def test_paths_are_expanded(start_execd):
    execd = start_execd(env={"HOME": "/etc", "SOMEWHERE": "/proc"}, cwd="/sys")
    for given, want in {"~": "/etc", "~/passwd": "/etc/passwd", "$SOMEWHERE/self": "/proc/self",
                        "${SOMEWHERE}/../etc": "/etc", "kernel": "/sys/kernel", ".": "/sys"}.items():
        infos = execd.client.get("/files/info", params={"path": given}).json()
        assert infos[given]["path"] == want


# --- list and search


@pytest.fixture
def tree(execd):
    for name in ("b/inner/x.py", "b/Z.py", "a.txt", "b.py", ".hidden.py"):
        path = execd.tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (execd.tmp / "link.py").symlink_to("b.py")
    (execd.tmp / "dirlink").symlink_to("b")
    return execd


def names(execd, response):
    assert response.status_code == 200, response.text
    return [entry["path"].removeprefix(f"{execd.tmp}/") for entry in response.json()]


def test_list_is_in_order_and_knows_depth(tree):
    def listing(**params):
        return names(tree, tree.client.get("/directories/list", params={"path": str(tree.tmp), **params}))

    top = [".hidden.py", "a.txt", "b", "b.py", "dirlink", "link.py"]
    assert listing() == top
    assert listing(depth=1) == top
    assert listing(depth=0) == []
    assert listing(depth=2) == [".hidden.py", "a.txt", "b", "b/Z.py", "b/inner", "b.py", "dirlink", "link.py"]
    assert "b/inner/x.py" in listing(depth=99999999999)


def test_list_errors(tree):
    def listing(**params):
        return tree.client.get("/directories/list", params=params)

    expect_error(listing(), 400, "MISSING_QUERY")
    expect_error(listing(path=str(tree.tmp / "none")), 404, "FILE_NOT_FOUND")
    for name in ("a.txt", "dirlink", "link.py"):
        expect_error(listing(path=str(tree.tmp / name)), 400, "INVALID_REQUEST_BODY")
    for depth in ("-1", "x", "1.5"):
        expect_error(listing(path=str(tree.tmp), depth=depth), 400, "INVALID_REQUEST_BODY")


@pytest.mark.parametrize("pattern, want", [
    (None, [".hidden.py", "a.txt", "b/Z.py", "b/inner/x.py", "b.py", "dirlink", "link.py"]),
    ("*", [".hidden.py", "a.txt", "b/Z.py", "b/inner/x.py", "b.py", "dirlink", "link.py"]),
    ("*.py", [".hidden.py", "b/Z.py", "b/inner/x.py", "b.py", "link.py"]),
    ("**/*.py", [".hidden.py", "b/Z.py", "b/inner/x.py", "b.py", "link.py"]),
    ("?.{py,txt}", ["a.txt", "b/Z.py", "b/inner/x.py", "b.py"]),
    ("[!a-z]*", [".hidden.py", "b/Z.py"]),
    ("!(*.py)", ["a.txt", "dirlink"]),
    ("b/*.py", []),
    ("../*", []),
    ("b", []),
])
def test_search_matches_base_names(tree, pattern, want):
    params = {"path": str(tree.tmp)} | ({"pattern": pattern} if pattern else {})
    assert names(tree, tree.client.get("/files/search", params=params)) == want


def test_search_root_that_is_no_directory_is_the_candidate(tree):
    for name in ("a.txt", "dirlink", "link.py"):
        response = tree.client.get("/files/search", params={"path": str(tree.tmp / name), "pattern": f"{name[0]}*"})
        assert names(tree, response) == [name]
        response = tree.client.get("/files/search", params={"path": str(tree.tmp / name), "pattern": "q*"})
        assert response.json() == []


def test_search_errors(tree):
    def search(**params):
        return tree.client.get("/files/search", params=params)

    expect_error(search(), 400, "MISSING_QUERY")
    expect_error(search(path=str(tree.tmp / "none")), 404, "FILE_NOT_FOUND")
    for pattern in ("[", "[]", "{a", "!a", "a\\", "x" * 5000, "{" * 200 + "}" * 200):
        expect_error(search(path=str(tree.tmp), pattern=pattern), 500, "RUNTIME_ERROR")


def test_hostile_patterns_end(tree):
    (tree.tmp / ("a" * 250)).touch()
    for pattern in ("*a" * 1000 + "b", "{a,aa}" * 500, "!(*" * 90 + ")" * 90):
        response = tree.client.get("/files/search", params={"path": str(tree.tmp), "pattern": pattern}, timeout=20)
        assert response.status_code == 200


def test_names_that_are_not_utf8(execd):
    name = os.fsencode(execd.tmp) + b"/bad\xff\xfename"
    with open(name, "wb") as file:
        file.write(b"content")
    listed = execd.client.get("/directories/list", params={"path": str(execd.tmp)}).json()
    assert [pathlib.PurePath(e["path"]).name for e in listed] == ["bad\ufffd\ufffdname"]
    response = execd.client.get(f"/files/download?path={raw_path(name)}")
    assert response.content == b"content"
    expect_empty(execd.client.delete(f"/files?path={raw_path(name)}"))
    assert os.listdir(execd.tmp) == []


def test_names_with_odd_characters_come_back_whole(execd):
    for name in ("new\nline", 'quo"te', "back\\slash", "tab\t", "\u2028", "\u00fc\U0001f600", "&<>+ %41"):
        path = str(execd.tmp / name)
        expect_empty(upload(execd.client, ({"path": path}, b"x")))
        assert execd.client.get("/files/info", params={"path": path}).json()[path]["path"] == path
        found = execd.client.get("/files/search", params={"path": str(execd.tmp), "pattern": "*"}).json()
        assert path in [entry["path"] for entry in found]


def test_large_listings_are_complete(execd):
    many = execd.tmp / "many"
    for directory in range(20):
        (many / f"{directory:02}").mkdir(parents=True)
        for file in range(500):
            (many / f"{directory:02}" / f"{file:04}").touch()
    listed = execd.client.get("/directories/list", params={"path": str(many), "depth": 5}).json()
    assert len(listed) == 20 * 501
    assert listed[1]["path"] == str(many / "00" / "0000")
    assert len(execd.client.get("/files/search", params={"path": str(many)}).json()) == 20 * 500
    expect_empty(execd.client.delete("/directories", params={"path": str(many)}))
    assert not many.exists()


# --- upload


def test_upload_many_files_in_one_request(execd):
    pairs = [({"path": str(execd.tmp / "new" / str(i)), "mode": 640, "owner": None, "group": None}, b"%d" % i)
             for i in range(300)]
    expect_empty(upload(execd.client, *pairs))
    for i in range(300):
        path = execd.tmp / "new" / str(i)
        assert path.read_bytes() == b"%d" % i
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_upload_keeps_the_mode_of_an_existing_file(execd):
    file = execd.tmp / "f"
    file.write_text("old and longer")
    file.chmod(0o604)
    if ROOT:
        os.chown(file, 1234, 5678)
    expect_empty(upload(execd.client, ({"path": str(file)}, b"new")))
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o604
    if ROOT:
        assert (file.stat().st_uid, file.stat().st_gid) == (1234, 5678)


@needs_root
def test_upload_with_owner_by_name_and_number(execd):
    by_name, by_number = execd.tmp / "name", execd.tmp / "number"
    expect_empty(upload(execd.client, ({"path": str(by_name), "owner": "nobody", "group": "nogroup"}, b""),
                        ({"path": str(by_number), "owner": "4321", "group": "8765"}, b"")))
    assert by_name.owner() == "nobody"
    assert (by_number.stat().st_uid, by_number.stat().st_gid) == (4321, 8765)


def test_upload_follows_symlinks(execd):
    (execd.tmp / "real").write_text("old")
    (execd.tmp / "link").symlink_to("real")
    (execd.tmp / "dangling").symlink_to("later")
    expect_empty(upload(execd.client, ({"path": str(execd.tmp / "link")}, b"new"),
                        ({"path": str(execd.tmp / "dangling")}, b"made")))
    assert (execd.tmp / "link").is_symlink() and (execd.tmp / "dangling").is_symlink()
    assert (execd.tmp / "real").read_bytes() == b"new"
    assert (execd.tmp / "later").read_bytes() == b"made"


def test_upload_of_a_chunked_body_with_a_quoted_boundary(execd):
    """As the C# client spells it: a quoted boundary, bare names, filename*."""
    path = execd.tmp / "f"
    body = (b'--b b\r\nContent-Disposition: form-data; name=metadata; filename=metadata; filename*=utf-8\'\'metadata\r\n'
            b'Content-Type: application/json\r\n\r\n' + json.dumps({"path": str(path)}).encode() + b"\r\n"
            b"--b b\r\nContent-Disposition: form-data; name=file; filename=x\r\n\r\n" + b"\r\n--b \r\n" * 1000
            + b"\r\n--b b--\r\n")

    def pieces():
        for i in range(0, len(body), 7):
            yield body[i:i + 7]

    response = execd.client.post("/files/upload", content=pieces(),
                                 headers={"Content-Type": 'multipart/form-data; boundary="b b"'})
    expect_empty(response)
    assert path.read_bytes() == b"\r\n--b \r\n" * 1000


def test_upload_of_a_large_file(execd):
    content = os.urandom(1 << 20) * 40
    path = execd.tmp / "large"
    expect_empty(upload(execd.client, ({"path": str(path)}, content)))
    assert path.read_bytes() == content
    assert execd.client.get("/files/download", params={"path": str(path)}).content == content


def test_readers_never_see_half_a_file(execd):
    path = execd.tmp / "f"
    versions = [bytes([c]) * 300_000 for c in b"ab"]
    path.write_bytes(versions[0])
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            content = path.read_bytes()
            seen.add((len(content), content[:1], content[-1:]))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(20):
        expect_empty(upload(execd.client, ({"path": str(path)}, versions[i % 2])))
    stop.set()
    reader.join()
    assert seen <= {(300_000, b"a", b"a"), (300_000, b"b", b"b")}


@pytest.mark.parametrize("parts, code", [
    ([], "INVALID_FILE"),
    (["file"], "INVALID_FILE_METADATA"),
    (["metadata"], "INVALID_FILE_CONTENT"),
    (["metadata", "file", "metadata"], "INVALID_FILE"),
    (["metadata", "file", "file"], "INVALID_FILE"),
    (["broken", "file"], "INVALID_FILE_METADATA"),
    (["pathless", "file"], "INVALID_FILE_METADATA"),
    (["metadata", "file", "broken", "file"], "INVALID_FILE_METADATA"),
])
def test_malformed_uploads_change_nothing(execd, parts, code):
    target = execd.tmp / "f"
    target.write_text("old")
    contents = {"metadata": json.dumps({"path": str(target)}), "file": "new", "broken": "{", "pathless": "{}"}
    files = [("file" if part == "file" else "metadata", ("x", contents[part])) for part in parts]
    if files:
        response = execd.client.post("/files/upload", files=files)
    else:
        response = execd.client.post("/files/upload", content=b"x", headers={"Content-Type": "text/plain"})
    expect_error(response, 400, code)
    assert target.read_text() == "old"
    assert os.listdir(execd.tmp) == ["f"]


def test_upload_failures_are_500(execd):
    (execd.tmp / "dir").mkdir()
    (execd.tmp / "file").write_text("x")
    for metadata in ({"path": str(execd.tmp / "dir")}, {"path": str(execd.tmp / "file" / "below")},
                     {"path": str(execd.tmp / "f"), "owner": "no-such-user"},
                     {"path": str(execd.tmp / "f"), "mode": 999}, {"path": "/dev/null"},
                     {"path": str(execd.tmp / ("n" * 300))}):
        expect_error(upload(execd.client, (metadata, b"new")), 500, "RUNTIME_ERROR")
    assert sorted(os.listdir(execd.tmp)) == ["dir", "file"]


def test_an_upload_that_breaks_off_leaves_nothing(execd):
    target = execd.tmp / "f"
    target.write_text("old")
    fresh = execd.tmp / "new" / "dir" / "f"
    boundary = uuid.uuid4().hex
    part = '--{}\r\nContent-Disposition: form-data; name="{}"; filename="x"\r\n\r\n'
    for path in (target, fresh):
        body = (part.format(boundary, "metadata") + json.dumps({"path": str(path)}) + "\r\n"
                + part.format(boundary, "file")).encode()
        with socket.create_connection(("127.0.0.1", execd.port)) as connection:
            connection.sendall((f"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n"
                                f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n").encode() + body)
            connection.sendall(b"z" * 10_000_000)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):  # until execd has given up and closed
                pass
        assert target.read_text() == "old"
        assert os.listdir(execd.tmp) == ["f"]
    # And no descriptor either.
    held = [os.readlink(f"/proc/{execd.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{execd.pid}/fd")]
    assert not [name for name in held if str(execd.tmp) in name]


@needs_root
def test_a_full_disk_is_a_clear_error_and_keeps_the_old_file(execd):
    with Tmpfs(execd.tmp / "disk", "2m") as disk:
        (disk / "f").write_bytes(b"o" * 500_000)
        response = upload(execd.client, ({"path": str(disk / "f")}, b"n" * 30_000_000))
        expect_error(response, 500, "RUNTIME_ERROR")
        assert "No space left" in response.json()["message"]
        assert (disk / "f").read_bytes() == b"o" * 500_000
        assert os.listdir(disk) == ["f"]
        response = execd.client.post("/files/replace", json={str(disk / "f"): {"old": "o", "new": "oooooooo"}})
        expect_error(response, 500, "RUNTIME_ERROR")
        assert (disk / "f").read_bytes() == b"o" * 500_000


@needs_root
def test_a_bind_mounted_file_is_written_in_place(execd):
    source, target = execd.tmp / "source", execd.tmp / "target"
    source.write_text("an old text that is longer")
    source.chmod(0o640)
    target.touch()
    with BindMount(source, target):
        expect_empty(upload(execd.client, ({"path": str(target)}, b"new")))
        assert source.read_bytes() == b"new"
        assert stat.S_IMODE(source.stat().st_mode) == 0o640
        replaced = execd.client.post("/files/replace", json={str(target): {"old": "new", "new": "newer"}})
        assert replaced.status_code == 200
        assert source.read_bytes() == b"newer"
    assert sorted(os.listdir(execd.tmp)) == ["source", "target"]


# --- download


@pytest.fixture(params=[100, 300_000], ids=["small", "large"])
def download(request, execd):
    content = b"".join(b"%07d\n" % i for i in range(request.param // 8 + 1))[:request.param]
    path = execd.tmp / "file.bin"
    path.write_bytes(content)

    def get(headers=None, **params):
        return execd.client.get("/files/download", params={"path": str(path), **params}, headers=headers)

    get.content = content
    get.path = path
    get.client = execd.client
    return get


def test_download_whole(download):
    response = download()
    assert response.status_code == 200
    assert response.content == download.content
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == 'attachment; filename="file.bin"'
    assert response.headers["content-length"] == str(len(download.content))
    assert response.headers["accept-ranges"] == "bytes"
    assert "last-modified" in response.headers


def test_head_has_the_same_headers(download):
    response = download.client.head("/files/download", params={"path": str(download.path)})
    assert response.status_code == 200
    assert response.headers["content-length"] == str(len(download.content))


@pytest.mark.parametrize("text, first, last", [("0-9", 0, 9), ("90-", 90, None), ("-5", -5, None), ("50-99999999", 50, None),
                                               ("0-0", 0, 0), ("1-2,4-5", 1, 2), ("-99999999", 0, None)])
def test_download_ranges(download, text, first, last):
    size = len(download.content)
    first = first if first >= 0 else size + first
    last = size - 1 if last is None else last
    response = download(headers={"Range": f"bytes={text}"})
    assert response.status_code == 206
    assert response.content == download.content[first:last + 1]
    assert response.headers["content-range"] == f"bytes {first}-{last}/{size}"
    assert response.headers["content-length"] == str(last + 1 - first)


def test_download_range_behind_the_end(download):
    response = download(headers={"Range": f"bytes={len(download.content)}-"})
    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{len(download.content)}"
    assert set(response.json()) >= {"code", "message"}


@pytest.mark.parametrize("text", ["bytes=", "bytes=a-b", "bytes=5-1", "lines=1-2", "bytes", "bytes=--1"])
def test_download_malformed_range(download, text):
    expect_error(download(headers={"Range": text}), 416, "UNKNOWN")


def test_download_conditional(download):
    first = download()
    assert download(headers={"If-Modified-Since": first.headers["last-modified"]}).status_code == 304
    assert download(headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    assert download(headers={"If-None-Match": '"other"'}).status_code == 200
    assert download(headers={"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}).status_code == 412
    kept = download(headers={"Range": "bytes=0-3", "If-Range": first.headers["etag"]})
    assert kept.status_code == 206
    download.path.write_bytes(b"changed")
    changed = download(headers={"Range": "bytes=0-3", "If-Range": first.headers["etag"]})
    assert (changed.status_code, changed.content) == (200, b"changed")


@pytest.mark.parametrize("params, want", [
    ({"offset": 1}, "one\ntwo\n\nfour"), ({"offset": 2}, "two\n\nfour"), ({"limit": 2}, "one\ntwo"),
    ({"offset": 2, "limit": 2}, "two\n"), ({"offset": 4, "limit": 100}, "four"), ({"offset": 5}, ""),
    ({"offset": 9223372036854775807, "limit": 9223372036854775807}, ""),
])
def test_download_lines(execd, params, want):
    path = execd.tmp / "lines"
    path.write_bytes(b"one\r\ntwo\n\nfour\n")
    response = execd.client.get("/files/download", params={"path": str(path), **params})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == want


def test_download_lines_errors(execd):
    path = execd.tmp / "lines"
    path.write_text("x")

    def get(name="lines", headers=None, **params):
        return execd.client.get("/files/download", params={"path": str(execd.tmp / name), **params}, headers=headers)

    for params in ({"offset": 0}, {"offset": -1}, {"limit": 0}, {"limit": "x"}, {"offset": "1.5"}):
        expect_error(get(**params), 400, "INVALID_REQUEST_BODY")
        expect_error(get("none", **params), 404, "FILE_NOT_FOUND")
    expect_error(get(headers={"Range": "bytes=0-1"}, offset=1), 400, "INVALID_REQUEST_BODY")


def test_download_errors(execd):
    expect_error(execd.client.get("/files/download"), 400, "MISSING_QUERY")
    expect_error(execd.client.get("/files/download?path="), 400, "MISSING_QUERY")
    (execd.tmp / "dangling").symlink_to("nowhere")
    os.mkfifo(execd.tmp / "fifo")
    for name in ("none", "dangling"):
        expect_error(execd.client.get("/files/download", params={"path": str(execd.tmp / name)}), 404, "FILE_NOT_FOUND")
    for path in (execd.tmp, execd.tmp / "fifo", "/dev/zero"):
        response = execd.client.get("/files/download", params={"path": str(path)})
        assert response.status_code == 400 and set(response.json()) >= {"code", "message"}


def test_download_names_that_are_not_ascii(execd):
    path = execd.tmp / "gr\u00fc\u00df e.txt"
    path.write_text("x")
    disposition = execd.client.get("/files/download", params={"path": str(path)}).headers["content-disposition"]
    assert "filename*=UTF-8''gr%C3%BC%C3%9F%20e.txt" in disposition


def test_download_of_proc_and_sparse_and_empty_files(execd):
    assert b"MemTotal" in execd.client.get("/files/download", params={"path": "/proc/meminfo"}).content
    (execd.tmp / "empty").touch()
    empty = execd.client.get("/files/download", params={"path": str(execd.tmp / "empty")})
    assert (empty.status_code, empty.content) == (200, b"")
    sparse = execd.tmp / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"middle")
    response = execd.client.get("/files/download", params={"path": str(sparse)},
                                headers={"Range": f"bytes={(1 << 39) - 2}-{(1 << 39) + 7}"})
    assert response.content == b"\0\0middle\0\0"
    assert execd.client.get("/files/info", params={"path": str(sparse)}).json()[str(sparse)]["size"] == 1 << 40


# --- move, replace, permissions, directories, delete


def test_move(execd):
    (execd.tmp / "a").write_text("a")
    (execd.tmp / "dir" / "sub").mkdir(parents=True)
    moves = [{"src": str(execd.tmp / "a"), "dest": str(execd.tmp / "new" / "b")},
             {"src": str(execd.tmp / "dir"), "dest": str(execd.tmp / "moved")}]
    expect_empty(execd.client.post("/files/mv", json=moves))
    assert (execd.tmp / "new" / "b").read_text() == "a"
    assert (execd.tmp / "moved" / "sub").is_dir()


def test_move_errors(execd):
    (execd.tmp / "a").write_text("a")
    (execd.tmp / "b").write_text("b")

    def move(src, dest):
        return execd.client.post("/files/mv", json=[{"src": str(execd.tmp / src), "dest": str(execd.tmp / dest)}])

    expect_error(move("none", "c"), 404, "FILE_NOT_FOUND")
    expect_error(move("a", "b"), 500, "RUNTIME_ERROR")
    expect_error(move("a", "b/c"), 500, "RUNTIME_ERROR")
    assert (execd.tmp / "b").read_text() == "b"
    for body in ("{}", "[{}]", "", "[1]", '[{"src":"a"}]'):
        expect_error(execd.client.post("/files/mv", content=body), 400, "INVALID_REQUEST_BODY")


def test_replace(execd):
    file = execd.tmp / "f"
    file.write_bytes(b"aXbXc\xff")
    file.chmod(0o640)
    os.utime(file, (1, 1))
    verbose = execd.client.post("/files/replace?verbose=true", json={str(file): {"old": "X", "new": "--"}})
    assert verbose.json() == {str(file): {"replacedCount": 2}}
    assert file.read_bytes() == b"a--b--c\xff"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.stat().st_mtime > 1
    os.utime(file, (1, 1))
    silent = execd.client.post("/files/replace", json={str(file): {"old": "none", "new": ""}})
    assert silent.status_code == 200 and silent.json() == {}
    assert file.stat().st_mtime > 1


def test_replace_errors(execd):
    file = execd.tmp / "f"
    file.write_text("x")
    expect_error(execd.client.post("/files/replace", json={str(file): {"old": "", "new": "y"}}), 400,
                 "INVALID_REQUEST_BODY")
    expect_error(execd.client.post("/files/replace", json={str(execd.tmp / "none"): {"old": "a", "new": "b"}}), 404,
                 "FILE_NOT_FOUND")
    expect_error(execd.client.post("/files/replace", content="[]"), 400, "INVALID_REQUEST_BODY")
    assert file.read_text() == "x"


def test_permissions(execd):
    file = execd.tmp / "f"
    file.touch()
    (execd.tmp / "link").symlink_to("f")
    link = str(execd.tmp / "link")
    expect_empty(execd.client.post("/files/permissions", json={link: {"mode": 604, "owner": None, "group": None}}))
    assert stat.S_IMODE(file.stat().st_mode) == 0o604
    expect_empty(execd.client.post("/files/permissions", json={link: {"mode": 0}}))
    assert stat.S_IMODE(file.stat().st_mode) == 0o604
    if ROOT:
        expect_empty(execd.client.post("/files/permissions", json={link: {"owner": "nobody", "group": "nogroup"}}))
        assert (file.owner(), file.group()) == ("nobody", "nogroup")
        expect_empty(execd.client.post("/files/permissions", json={link: {"owner": "0", "group": "1234"}}))
        assert (file.stat().st_uid, file.stat().st_gid) == (0, 1234)


def test_permission_errors(execd):
    file = execd.tmp / "f"
    file.touch()
    for body in ({str(file): {"mode": 888}}, {str(file): {"owner": "no-such-user"}},
                 {str(file): {"group": "no-such-group"}}, {str(execd.tmp / "none"): {"mode": 755}}):
        expect_error(execd.client.post("/files/permissions", json=body), 500, "RUNTIME_ERROR")
    for body in ("", "{", "[]", json.dumps({str(file): {"mode": "x"}})):
        expect_error(execd.client.post("/files/permissions", content=body), 400, "INVALID_REQUEST_BODY")


def test_make_directories(execd):
    old = execd.tmp / "old"
    old.mkdir(mode=0o700)
    new = execd.tmp / "a" / "b"
    expect_empty(execd.client.post("/directories", json={str(old): {"mode": 755}, str(new): {"mode": 750}}))
    assert stat.S_IMODE(new.stat().st_mode) == 0o750
    assert stat.S_IMODE(old.stat().st_mode) == 0o700
    (execd.tmp / "file").touch()
    for path in (execd.tmp / "file", execd.tmp / "file" / "below"):
        expect_error(execd.client.post("/directories", json={str(path): {"mode": 755}}), 500, "RUNTIME_ERROR")


def test_delete_files(execd):
    (execd.tmp / "dir").mkdir()
    (execd.tmp / "f").touch()
    (execd.tmp / "dangling").symlink_to("nowhere")
    (execd.tmp / "dirlink").symlink_to("dir")
    paths = [str(execd.tmp / name) for name in ("f", "dangling", "none")]
    expect_empty(execd.client.delete("/files", params={"path": paths}))
    assert sorted(os.listdir(execd.tmp)) == ["dir", "dirlink"]
    for name in ("dir", "dirlink"):
        expect_error(execd.client.delete("/files", params={"path": str(execd.tmp / name)}), 500, "RUNTIME_ERROR")
    expect_empty(execd.client.delete("/files"))


def test_delete_directories(execd):
    deep = execd.tmp / "dir" / "a" / "b"
    deep.mkdir(parents=True)
    (execd.tmp / "keep").mkdir()
    (execd.tmp / "keep" / "f").touch()
    (deep / "link").symlink_to(execd.tmp / "keep")
    (execd.tmp / "file").touch()
    paths = [str(execd.tmp / name) for name in ("dir", "file", "none")]
    expect_empty(execd.client.delete("/directories", params={"path": paths}))
    assert os.listdir(execd.tmp) == ["keep"]
    assert (execd.tmp / "keep" / "f").exists()


# --- archives


def archive_of(execd, path):
    response = execd.client.get("/directories/archive", params={"path": str(path)})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-tar"
    return response.content


def unpack(execd, path, archive):
    return execd.client.post("/directories/archive", params={"path": str(path)}, content=archive)


def test_an_archive_keeps_the_tree(execd):
    tree = execd.tmp / "from"
    (tree / "sub").mkdir(parents=True)
    (tree / "file").write_text("hello")
    (tree / "file").chmod(0o4711)
    os.utime(tree / "file", ns=(5, 1_234_567_890_123_456_789))
    os.link(tree / "file", tree / "sub" / "hard")
    (tree / "soft").symlink_to("/nowhere")
    (tree / ("n" * 200)).write_bytes(os.urandom(1_000_000))
    with open(tree / "sparse", "wb") as file:
        file.truncate(1 << 33)
        file.seek(1 << 32)
        file.write(b"x")
    if ROOT:
        os.chown(tree / "sub", 1234, 5678)
    (tree / "sub").chmod(0o700)
    content = archive_of(execd, tree)
    assert len(content) < 3_000_000

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {m.name.removeprefix("./"): m for m in archive.getmembers()}
    assert members["file"].mode == 0o4711
    assert members["sub/hard"].islnk()

    expect_empty(unpack(execd, execd.tmp / "to" / "deeper", content))
    copy = execd.tmp / "to" / "deeper"
    assert sorted(p.relative_to(copy) for p in copy.rglob("*")) == sorted(p.relative_to(tree) for p in tree.rglob("*"))
    for name in (".", "file", "sub", "soft", "sparse", "n" * 200):
        got, want = os.lstat(copy / name), os.lstat(tree / name)
        assert (got.st_mode, got.st_uid, got.st_gid, got.st_mtime_ns) == \
            (want.st_mode, want.st_uid, want.st_gid, want.st_mtime_ns), name
    assert os.path.samefile(copy / "file", copy / "sub" / "hard")
    assert os.readlink(copy / "soft") == "/nowhere"
    assert (copy / ("n" * 200)).read_bytes() == (tree / ("n" * 200)).read_bytes()
    assert os.stat(copy / "sparse").st_blocks < 1000 and os.stat(copy / "sparse").st_size == 1 << 33


def member(name, kind=tarfile.REGTYPE, link="", content=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def make_tar(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_archives_cannot_leave_the_directory(execd):
    target, outside = execd.tmp / "in", execd.tmp / "out"
    target.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s")
    (target / "existing").symlink_to(outside)
    for members in ([member(f"{outside}/new", content=b"x")], [member("../out/new", content=b"x")],
                    [member("a/../../out/new", content=b"x")], [member("../out/d", tarfile.DIRTYPE)],
                    [member("l", tarfile.SYMTYPE, str(outside)), member("l/new", content=b"x")],
                    [member("existing/new", content=b"x")], [member("existing/d", tarfile.DIRTYPE)],
                    [member("h", tarfile.LNKTYPE, "../out/secret")],
                    [member("h", tarfile.LNKTYPE, "existing/secret")],
                    [member("dev", tarfile.CHRTYPE)]):
        expect_error(unpack(execd, target, make_tar(*members)), 400, "INVALID_FILE")
    assert os.listdir(outside) == ["secret"]
    assert os.stat(outside / "secret").st_nlink == 1


def test_broken_archives(execd):
    whole = make_tar(member("first", content=b"1"), member("second", content=b"2" * 100_000))
    for broken in (b"", b"x" * 2000, b"\x1f\x8b" + b"z" * 2000, whole[:50_000], whole[:700]):
        expect_error(unpack(execd, execd.tmp / "to", broken), 400, "INVALID_FILE")
    assert os.listdir(execd.tmp / "to") == ["first"]
    expect_error(unpack(execd, execd.tmp / "to" / "first", whole), 400, "INVALID_REQUEST_BODY")
    expect_error(execd.client.post("/directories/archive", content=whole), 400, "MISSING_QUERY")
    expect_error(execd.client.get("/directories/archive"), 400, "MISSING_QUERY")
    expect_error(execd.client.get("/directories/archive", params={"path": str(execd.tmp / "none")}), 404,
                 "FILE_NOT_FOUND")


@needs_root
def test_unpacking_onto_a_full_disk(execd):
    with Tmpfs(execd.tmp / "disk", "1m") as disk:
        archive = make_tar(member("small", content=b"1"), member("big", content=b"2" * 20_000_000))
        expect_error(unpack(execd, disk, archive), 500, "RUNTIME_ERROR")
        assert os.listdir(disk) == ["small"]


# --- /v1/filesystem/{uid}/{gid}

THEM = (65534, 65533)


class As:
    """A client whose requests act as a user."""

    def __init__(self, client, uid, gid):
        self._client, self._prefix = client, f"/v1/filesystem/{uid}/{gid}"

    def __getattr__(self, method):
        call = getattr(self._client, method)
        return lambda path, **options: call(self._prefix + path, **options)


@pytest.fixture
def shared(execd):
    """A directory that others can reach, with one of theirs in it."""
    for directory in (execd.tmp, *execd.tmp.parents):
        if directory.stat().st_uid == os.geteuid() and not directory.stat().st_mode & 0o001:
            directory.chmod(0o755)
    theirs = execd.tmp / "theirs"
    theirs.mkdir()
    os.chown(theirs, *THEM)
    return execd.tmp


def owner(path):
    info = os.lstat(path)
    return info.st_uid, info.st_gid


@needs_root
def test_every_route_works_as_another_user(execd, shared):
    them = As(execd.client, *THEM)
    home = shared / "theirs"
    expect_empty(upload(them, ({"path": f"{home}/a/b", "mode": 640}, b"one\ntwo\n")))
    assert owner(home / "a") == owner(home / "a/b") == THEM
    assert them.get("/files/download", params={"path": f"{home}/a/b"}).content == b"one\ntwo\n"
    assert them.get("/files/download", params={"path": f"{home}/a/b", "offset": 2}).content == b"two"
    assert them.get("/files/download", params={"path": f"{home}/a/b"}, headers={"Range": "bytes=0-2"}).content == b"one"
    assert them.get("/files/info", params={"path": f"{home}/a/b"}).json()[f"{home}/a/b"]["mode"] == 640
    assert [e["path"] for e in them.get("/directories/list", params={"path": str(home)}).json()] == [f"{home}/a"]
    assert [e["path"] for e in them.get("/files/search", params={"path": str(home), "pattern": "*"}).json()] == [
        f"{home}/a/b"]
    assert them.post("/files/replace", json={f"{home}/a/b": {"old": "one", "new": "1"}}).status_code == 200
    assert (owner(home / "a/b"), (home / "a/b").read_bytes()) == (THEM, b"1\ntwo\n")
    expect_empty(them.post("/files/permissions", json={f"{home}/a/b": {"mode": 600}}))
    expect_empty(them.post("/files/mv", json=[{"src": f"{home}/a/b", "dest": f"{home}/c/d"}]))
    expect_empty(them.post("/directories", json={f"{home}/e/f": {"mode": 700}}))
    assert owner(home / "c") == owner(home / "c/d") == owner(home / "e/f") == THEM
    archive = them.get("/directories/archive", params={"path": f"{home}/c"})
    assert archive.status_code == 200
    expect_empty(them.post("/directories/archive", params={"path": f"{home}/g"}, content=archive.content))
    assert owner(home / "g/d") == THEM
    expect_empty(them.delete("/files", params={"path": f"{home}/c/d"}))
    expect_empty(them.delete("/directories", params={"path": [f"{home}/a", f"{home}/c", f"{home}/e", f"{home}/g"]}))
    assert os.listdir(home) == []


@needs_root
def test_another_user_has_exactly_the_kernels_permissions(execd, shared):
    them = As(execd.client, *THEM)
    home = shared / "theirs"
    secret, private, grouped = shared / "secret", shared / "private", shared / "grouped"
    secret.write_text("root's")
    secret.chmod(0o600)
    grouped.write_text("root's group's")
    grouped.chmod(0o660)
    private.mkdir(mode=0o700)
    (private / "open").write_text("behind a closed door")
    (private / "open").chmod(0o666)
    (home / "link").symlink_to(secret)
    (home / "door").symlink_to(private)
    (home / "mine").write_text("mine")
    os.chown(home / "mine", *THEM)

    closed = [secret, grouped, private / "open", home / "link", home / "door/open", "/proc/self/environ",
              "/proc/self/mem", "/proc/1/environ", f"/proc/{execd.pid}/environ", "/etc/shadow"]
    for path in closed:
        expect_error(them.get("/files/download", params={"path": str(path)}), 500, "RUNTIME_ERROR")
        expect_error(them.get("/files/download", params={"path": str(path), "offset": 1}), 500, "RUNTIME_ERROR")
        expect_error(them.post("/files/replace", json={str(path): {"old": "r", "new": "x"}}), 500, "RUNTIME_ERROR")
    for path in (secret, grouped, private / "open", private / "new", home / "link", home / "door/open", shared / "new",
                 "/etc/new", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern"):
        expect_error(upload(them, ({"path": str(path)}, b"x")), 500, "RUNTIME_ERROR")
    for body in ({str(secret): {"mode": 666}}, {str(home / "link"): {"mode": 666}}, {str(secret): {"owner": "nobody"}},
                 {str(home / "mine"): {"owner": "root"}}, {str(home / "mine"): {"group": "root"}}):
        expect_error(them.post("/files/permissions", json=body), 500, "RUNTIME_ERROR")
    for source, target in ((secret, home / "stolen"), (home / "mine", shared / "new"), (private / "open", home / "x")):
        expect_error(them.post("/files/mv", json=[{"src": str(source), "dest": str(target)}]), 500, "RUNTIME_ERROR")
    for path in (secret, private / "open"):
        expect_error(them.delete("/files", params={"path": str(path)}), 500, "RUNTIME_ERROR")
    expect_error(them.delete("/directories", params={"path": str(private)}), 500, "RUNTIME_ERROR")
    expect_error(them.post("/directories", json={str(private / "d"): {}}), 500, "RUNTIME_ERROR")
    for route in ("/directories/list", "/files/search", "/directories/archive"):
        expect_error(them.get(route, params={"path": str(private)}), 500, "RUNTIME_ERROR")
    expect_error(them.get("/files/info", params={"path": str(private / "open")}), 500, "RUNTIME_ERROR")

    # An archive cannot give files away, nor bring a program that runs as root.
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("shell")
        entry.mode, entry.uid, entry.gid, entry.size = 0o4755, 0, 0, 1
        tar.addfile(entry, io.BytesIO(b"x"))
    expect_empty(them.post("/directories/archive", params={"path": str(home / "t")}, content=packed.getvalue()))
    assert owner(home / "t/shell") == THEM

    assert secret.read_text() == "root's"
    assert (owner(secret), stat.S_IMODE(secret.stat().st_mode)) == ((0, 0), 0o600)
    assert (private / "open").read_text() == "behind a closed door"
    assert sorted(os.listdir(shared)) == ["grouped", "private", "secret", "theirs"]
    # The daemon itself is what it was.
    assert execd.client.get("/files/download", params={"path": str(secret)}).text == "root's"


@needs_root
def test_the_descriptors_of_the_daemon_are_no_way_around(execd, shared):
    """A process can open its own /proc/self/fd as any user: files that root's requests hold open would be reachable."""
    them = As(execd.client, *THEM)
    home = shared / "theirs"
    (home / "self").symlink_to("/proc/self")
    (home / "cwd").symlink_to("self/cwd")
    for path in ("/proc/self/root/etc/passwd", "/proc/thread-self/root/etc/passwd", f"{home}/self/root/etc/passwd",
                 f"/proc/{execd.pid}/root/etc/passwd", "/proc/self/exe", "/dev/fd/0", f"{home}/cwd/x",
                 *(f"/proc/self/fd/{n}" for n in range(20))):
        for route in ("/files/download", "/files/info", "/directories/list", "/directories/archive"):
            assert them.get(route, params={"path": path}).status_code in (404, 500), (route, path)
        assert upload(them, ({"path": path}, b"x")).status_code == 500
    #  Other files of /proc stay readable.
    assert them.get("/files/download", params={"path": "/proc/self/status"}).status_code == 200


@needs_root
def test_requests_of_root_and_of_others_do_not_mix(execd, shared):
    secret = shared / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    users = [None, THEM, (1000, 1001), None, THEM]
    (shared / "1000").mkdir()
    os.chown(shared / "1000", 1000, 1001)
    failures = []

    def work(number, user):
        try:
            with httpx.Client(base_url=execd.url, timeout=60, trust_env=False) as own:
                client = own if user is None else As(own, *user)
                folder = shared if user is None else shared / ("theirs" if user == THEM else "1000")
                for turn in range(100):
                    read = client.get("/files/download", params={"path": str(secret)})
                    assert read.status_code == (200 if user is None else 500), (user, read.text)
                    path = folder / f"{number}-{turn}"
                    expect_empty(upload(client, ({"path": str(path)}, b"x" * (1 + turn * 3000))))
                    assert owner(path) == ((0, 0) if user is None else user), user
                    listed = client.get("/directories/list", params={"path": str(folder)})
                    assert listed.status_code == 200
        except BaseException as error:  # pytest does not see those of threads
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    ids = [line.split()[1:] for task in pathlib.Path(f"/proc/{execd.pid}/task").iterdir()
           for line in (task / "status").read_text().splitlines() if line.startswith(("Uid:", "Gid:"))]
    assert ids and all(set(numbers) == {"0"} for numbers in ids)


def test_identities_that_are_none(execd):
    for identity in ("4294967295/0", "0/4294967295", "-1/0", "root/root", "0/%20", "1e3/0"):
        response = execd.client.get(f"/v1/filesystem/{identity}/files/info", params={"path": "/"})
        expect_error(response, 400, "INVALID_REQUEST_BODY")
    assert execd.client.get("/v1/filesystem/0/files/info").status_code == 404
    own = As(execd.client, os.geteuid(), os.getegid())
    assert own.get("/files/info", params={"path": "/"}).status_code == 200


def test_an_identity_needs_the_token(token_execd):
    url = f"{token_execd.url}/v1/filesystem/0/0/files/info?path=/"
    assert httpx.get(url, trust_env=False).status_code == 401
    assert token_execd.client.get(url).status_code == 200


@needs_root
def test_without_privilege_there_are_no_identities(start_execd, shared):
    execd = start_execd(identity=THEM)
    for identity in ("0/0", "1000/1000", "65534/0"):
        response = execd.client.get(f"/v1/filesystem/{identity}/files/info", params={"path": "/"})
        expect_error(response, 503, "FILESYSTEM_IDENTITY_UNAVAILABLE")
    assert As(execd.client, *THEM).get("/files/info", params={"path": "/"}).status_code == 200
