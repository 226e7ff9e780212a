"""Files arrive complete and correct, or not at all, whatever the server does."""

import gzip
import hashlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, Request

import pytest
from tests.datasets.web import IMPATIENT, Page, Web, zipped
from tests.local_server import LocalServer

from headrace.datasets.downloading import Downloads, Patience, Resource
from headrace.datasets.downloading import fetch as fetching
from headrace.errors import DownloadFailed, UnsupportedData

BODY = bytes(range(256)) * 400  # 100 KiB


@pytest.fixture
def fetch(tmp_path, web):
    """``fetch(resource)``: the path of the file."""

    def call(resource, patience=IMPATIENT):
        return Downloads(folder=tmp_path / "files", resources={"x": resource}, patience=patience, progress=False)["x"]

    return call


def left_over(path):
    """The files beside a download, except the note of its origin and the lock."""
    expected = {path.name, path.name + ".json", f".{path.name}.lock"}
    return {file.name for file in path.parent.iterdir()} - expected


def test_a_file_is_fetched_once(web, fetch):
    web.pages["/a.bin"] = Page(BODY)
    path = fetch(web.resource("/a.bin"))
    assert path.read_bytes() == BODY
    assert path.name.endswith("-a.bin")
    assert fetch(web.resource("/a.bin")) == path
    assert len(web.asked) == 1
    assert left_over(path) == set()


@pytest.mark.parametrize("reported", [{}, {"sha256": None}, {"sha256": None, "size": None}, {"size": None}])
def test_size_and_checksum_are_optional(web, fetch, reported):
    web.pages["/a"] = Page(BODY)
    assert fetch(web.resource("/a", **reported)).read_bytes() == BODY


def test_an_empty_file_is_a_file(web, fetch):
    web.pages["/a"] = Page(b"")
    assert fetch(web.resource("/a")).read_bytes() == b""


def test_md5_will_do(web, fetch):
    web.pages["/a"] = Page(BODY)
    right = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
    assert fetch(web.resource("/a", sha256=None, md5=right)).read_bytes() == BODY
    with pytest.raises(DownloadFailed, match="md5"):
        fetch(web.resource("/a", sha256=None, md5="0" * 32))


def test_an_interrupted_download_resumes(web, fetch):
    web.pages["/a"] = Page(BODY, cut_at=[1000, 5000, None])
    assert fetch(web.resource("/a")).read_bytes() == BODY
    assert [asked[1:] for asked in web.asked] == [(None, None), ("bytes=1000-", '"one"'), ("bytes=6000-", '"one"')]


def test_another_process_resumes(web, fetch):
    web.pages["/a"] = Page(BODY, cut_at=[1000], statuses=[])
    with pytest.raises(DownloadFailed):
        fetch(web.resource("/a"), Patience(timeout_s=20, attempts=1, backoff_s=0))
    assert fetch(web.resource("/a")).read_bytes() == BODY
    assert web.asked[-1][1] == "bytes=1000-"


def test_a_server_without_ranges_begins_again(web, fetch):
    web.pages["/a"] = Page(BODY, cut_at=[1000, None], ranges=False)
    assert fetch(web.resource("/a")).read_bytes() == BODY


@pytest.mark.parametrize("sha256", [{}, {"sha256": None}])
def test_a_file_that_changes_meanwhile_is_fetched_again(web, fetch, sha256):
    new = BODY[::-1]

    def change(page):
        page.body, page.etag = new, '"two"'

    web.pages["/a"] = Page(BODY, cut_at=[1000], after=change)
    assert fetch(web.resource("/a", body=new, **sha256)).read_bytes() == new


def test_a_change_that_the_server_does_not_tell_shows_in_the_checksum(web, fetch):
    new = BODY[::-1]

    def change(page):
        page.body = new

    web.pages["/a"] = Page(BODY, cut_at=[1000], after=change, etag=None)
    assert fetch(web.resource("/a", body=new)).read_bytes() == new
    assert web.asked[1][1:] == ("bytes=1000-", None)


def test_without_tag_and_checksum_nothing_is_joined(web, fetch):
    web.pages["/a"] = Page(BODY, cut_at=[1000, None], etag=None)
    assert fetch(web.resource("/a", sha256=None)).read_bytes() == BODY
    assert [asked[1] for asked in web.asked] == [None, None]


def test_a_weak_tag_does_not_join_ranges(web, fetch):
    web.pages["/a"] = Page(BODY, cut_at=[1000, None], etag='W/"one"')
    assert fetch(web.resource("/a", sha256=None)).read_bytes() == BODY
    assert web.asked[1][1] is None


@pytest.mark.parametrize("known", [{}, {"sha256": None, "size": None}])
def test_chunks_that_end_too_early_are_noticed(web, fetch, known):
    web.pages["/a"] = Page(BODY, chunks=1000, cut_at=[5555, 1020 * 10, None])
    assert fetch(web.resource("/a", **known)).read_bytes() == BODY
    assert len(web.asked) == 3


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_server_in_trouble_is_asked_again(web, fetch, status):
    web.pages["/a"] = Page(BODY, statuses=[status, status])
    assert fetch(web.resource("/a")).read_bytes() == BODY


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_server_without_the_file_is_not_asked_again(web, fetch, status):
    web.pages["/a"] = Page(BODY, statuses=[status])
    with pytest.raises(DownloadFailed, match=str(status)) as caught:
        fetch(web.resource("/a"))
    assert len(web.asked) == 1
    assert isinstance(caught.value, OSError)
    assert "put the file at" in caught.value.hint


def test_the_next_address_is_tried(web, fetch):
    web.pages["/wrong"] = Page(BODY[::-1])
    web.pages["/right"] = Page(BODY)
    urls = tuple(web.url + path for path in ("/none", "/wrong", "/right"))
    path = fetch(Resource(urls=urls, size=len(BODY), sha256=hashlib.sha256(BODY).hexdigest()))
    assert path.read_bytes() == BODY


def test_another_file_will_do(web, fetch):
    web.pages["/b"] = Page(b"other")
    first = Resource(urls=(web.url + "/none",), otherwise=web.resource("/b"))
    assert fetch(first).read_bytes() == b"other"


def test_every_failure_is_reported(web, fetch):
    web.pages["/wrong"] = Page(b"x" * len(BODY))
    urls = (web.url + "/none", web.url + "/wrong")
    with pytest.raises(DownloadFailed) as caught:
        fetch(Resource(urls=urls, size=len(BODY), sha256=hashlib.sha256(BODY).hexdigest()))
    assert "404" in caught.value.found
    assert "sha256" in caught.value.found


@pytest.mark.parametrize(
    "page",
    [
        Page(BODY[:-1]),
        Page(BODY + b"x"),
        Page(BODY, more=b"x", length=None),
        Page(BODY, length=str(len(BODY) + 5)),
        Page(BODY, length="5"),
        Page(b"<html>Sign in</html>"),
        Page(BODY, encoding="gzip"),
        Page(gzip.compress(BODY), encoding="gzip"),
        Page(BODY, cut_at=[1000, 0, 0, 0, 0, 0]),
        Page(BODY, cut_at=[1000], content_range="bytes 0-9/10"),
        Page(BODY, cut_at=[1000], content_range="rubbish"),
        Page(BODY[:-1] + b"?"),
    ],
    ids=range(12),
)
def test_a_lying_server_gets_nothing_under_the_name(web, tmp_path, fetch, page):
    web.pages["/a"] = page
    resource = web.resource("/a", body=BODY)
    try:
        path = fetch(resource)
    except DownloadFailed:
        assert not (tmp_path / "files" / resource.stored_name).exists()
    else:
        assert path.read_bytes() == BODY  # it succeeded in the end


def test_a_wrong_length_that_is_too_long_is_not_believed(web, fetch):
    web.pages["/a"] = Page(BODY, length=str(len(BODY) + 5))
    with pytest.raises(DownloadFailed, match=f"it has {len(BODY) + 5} bytes there"):
        fetch(web.resource("/a"))


def test_a_server_that_stops_in_the_middle_is_left(web, fetch):
    web.pages["/a"] = Page(BODY, drip=True)
    with pytest.raises(DownloadFailed, match="imed"):
        fetch(web.resource("/a"), Patience(timeout_s=0.2, attempts=2, backoff_s=0))


def test_no_server(fetch):
    server = Web()
    server.close()
    with pytest.raises(DownloadFailed, match=r"after 2 attempts"):
        fetch(Resource(urls=(server.url + "/a",)), Patience(timeout_s=5, attempts=2, backoff_s=0))


def test_redirections_are_followed_but_not_to_files(web, fetch):
    web.pages["/old"] = Page(b"", statuses=[302], location=web.url + "/new")
    web.pages["/new"] = Page(BODY)
    assert fetch(web.resource("/old", body=BODY)).read_bytes() == BODY
    web.pages["/out"] = Page(b"", statuses=[302], location="file:///etc/passwd")
    with pytest.raises(DownloadFailed, match="not allowed"):
        fetch(web.resource("/out", body=BODY[1:]))
    web.pages["/odd"] = Page(b"", statuses=[302], location="http://[::1/")
    with pytest.raises(DownloadFailed):
        fetch(web.resource("/odd", body=BODY[2:]))
    web.pages["/round"] = Page(b"", statuses=[302] * 100, location=web.url + "/round")
    with pytest.raises(DownloadFailed, match="302"):
        fetch(web.resource("/round", body=BODY[3:]))


def test_damaged_downloads_are_fetched_again(web, fetch):
    web.pages["/a"] = Page(BODY)
    path = fetch(web.resource("/a"))
    path.write_bytes(BODY[:-1] + b"?")
    assert fetch(web.resource("/a")).read_bytes() == BODY
    assert len(web.asked) == 2


def test_later_examples_match_the_first(web, fetch):
    """If no checksum is known, later downloads must match the first."""
    web.pages["/a"] = Page(BODY)
    resource = web.resource("/a", sha256=None, size=None)
    path = fetch(resource)
    path.unlink()
    web.pages["/a"] = Page(BODY[::-1])
    with pytest.raises(DownloadFailed, match="as in the first download"):
        fetch(resource)


def test_two_who_want_the_same_file_fetch_it_once(web, tmp_path):
    web.pages["/a"] = Page(BODY)
    resource = web.resource("/a")
    found = []

    def ask():
        downloads = Downloads(folder=tmp_path, resources={"x": resource}, patience=IMPATIENT, progress=False)
        found.append(downloads["x"].read_bytes())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [BODY] * 4
    assert len(web.asked) == 1


def test_proxies_of_the_environment_are_used(web, fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", web.url)
    web.pages["http://example.invalid/a"] = Page(BODY)
    resource = Resource(urls=("http://example.invalid/a",), sha256=hashlib.sha256(BODY).hexdigest())
    assert fetch(resource).read_bytes() == BODY


def test_a_disk_that_is_too_small_is_reported_first(web, fetch):
    web.pages["/a"] = Page(BODY)
    with pytest.raises(UnsupportedData, match="room for"):
        fetch(web.resource("/a", size=1 << 60))
    assert web.asked == []


def test_archives_are_unpacked_once(web, tmp_path):
    web.pages["/a.zip"] = Page(zipped({"in/a.txt": b"a", "in/b.txt": b"b"}))
    downloads = Downloads(folder=tmp_path, resources={"x": web.resource("/a.zip")}, progress=False)
    folder = downloads.unpacked("x")
    assert (folder / "in" / "a.txt").read_bytes() == b"a"
    (folder / "in" / "a.txt").write_bytes(b"kept")
    assert (downloads.unpacked("x") / "in" / "a.txt").read_bytes() == b"kept"
    only = downloads.unpacked("x", only={"in/b.txt": "b"})
    assert [file.name for file in only.iterdir()] == ["b"]
    assert downloads.size == web.resource("/a.zip").size


def test_other_members_of_an_archive_with_the_same_new_names_get_a_folder_of_their_own(web, tmp_path):
    web.pages["/a.zip"] = Page(zipped({"train/x.csv": b"train", "test/x.csv": b"test"}))
    downloads = Downloads(folder=tmp_path, resources={"x": web.resource("/a.zip")}, progress=False)
    old = tmp_path / "unpacked" / f"{downloads['x'].name}-x.csv"  # as earlier releases named it
    old.mkdir(parents=True)
    (old / "x.csv").write_bytes(b"of another call")
    for split in ("train", "test", "train"):
        folder = downloads.unpacked("x", only={f"{split}/x.csv": "x.csv"})
        assert (folder / "x.csv").read_bytes() == split.encode()
    long = {f"train/{'x' * 100}{i}.csv": b"%d" % i for i in range(2)}
    web.pages["/b.zip"] = Page(zipped(long))
    downloads = Downloads(folder=tmp_path, resources={"x": web.resource("/b.zip")}, progress=False)
    for member, content in long.items():
        name = member.rpartition("/")[2]
        assert (downloads.unpacked("x", only={member: name}) / name).read_bytes() == content


def test_addresses_with_blanks_and_other_letters_are_escaped(web, fetch):
    asked = "/a%20%C3%BC%2Fb%20c.csv?x=%C3%BC%20&y=a%2Bb+c"
    web.pages[asked] = Page(BODY)
    resource = Resource(urls=(f"{web.url}/a ü%2Fb%20c.csv?x=ü &y=a%2Bb+c",))
    assert fetch(resource).read_bytes() == BODY
    assert [each[0] for each in web.asked] == [asked]


@pytest.mark.parametrize(
    "wrong",
    [
        {"urls": "https://example.org/a"},
        {"urls": ()},
        {"urls": ("file:///etc/passwd",)},
        {"urls": ("ftp://example.org/a",)},
        {"urls": ("https:///a",)},
        {"sha256": "12"},
        {"sha256": "G" * 64},
        {"md5": "0" * 31},
        {"size": -1},
    ],
)
def test_resources_are_validated(wrong):
    with pytest.raises(ValueError, match=r"must be|begins with"):
        Resource(**{"urls": ("https://example.org/a",), **wrong})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/a/b.zip?x=1#y", "b.zip"),
        ("https://example.org/..%2F..%2Fetc%2Fpasswd", "passwd"),
        ("https://example.org/%2e%2e", "file"),
        ("https://example.org/a%00b", "a_b"),
        ("https://example.org/", "file"),
        ("https://example.org/.hidden", "hidden"),
    ],
)
def test_names_cannot_lead_anywhere(url, name):
    assert Resource(urls=(url,)).name == name


def test_patience_is_validated():
    for wrong in ({"timeout_s": 0}, {"attempts": 0}, {"backoff_s": -1}):
        with pytest.raises(ValueError, match="time-out"):
            Patience(**wrong)


@pytest.mark.parametrize(
    ("date", "tells"),
    [
        ("Sat, 21 Nov 2026 10:00:05 GMT", True),
        ("Sat, 21 Nov 2026 10:00:01 GMT", False),
        ("Sat, 21 Nov 2026 10:00:00 GMT", False),
        (None, False),
        ("soon", False),
    ],
)
def test_a_time_that_may_come_twice_does_not_tell_states_apart(date, tells):
    modified = "Sat, 21 Nov 2026 10:00:00 GMT"
    headers = {"Last-Modified": modified} | ({} if date is None else {"Date": date})
    assert fetching._settled_time(headers) == (modified if tells else "")
    assert not fetching._settled_time({"Date": "Sat, 21 Nov 2026 10:00:05 GMT"})


def attempt(url, folder, **options):
    """One attempt at an address, whose part is ``folder/part``."""
    given = {"size": len(BODY), "can_be_checked": True, "timeout_s": 20, "arrived": lambda *_: None}
    return fetching.Attempt(url=url, part=folder / "part", **{**given, **options})


def test_a_complete_part_is_not_requested_again(web, tmp_path):
    (tmp_path / "part").write_bytes(BODY)
    fetching.fetch(attempt(web.url + "/a", tmp_path))
    assert (tmp_path / "part").read_bytes() == BODY
    assert web.asked == []


def test_a_part_that_is_longer_than_the_file_is_fetched_anew(web, tmp_path):
    web.pages["/a"] = Page(BODY)
    (tmp_path / "part").write_bytes(BODY + b"x")
    fetching.fetch(attempt(web.url + "/a", tmp_path))
    assert (tmp_path / "part").read_bytes() == BODY
    assert web.asked == [("/a", None, None)]


def test_a_part_beyond_the_end_is_forgotten(web, tmp_path):
    web.pages["/a"] = Page(BODY)
    (tmp_path / "part").write_bytes(BODY + b"x")
    unknown = attempt(web.url + "/a", tmp_path, size=None)
    with pytest.raises(fetching.Unfinished, match="416: the part is longer than the file"):
        fetching.fetch(unknown)
    assert not unknown.part.exists()
    fetching.fetch(unknown)
    assert unknown.part.read_bytes() == BODY


@pytest.mark.parametrize("notes", ["", "[]", '{"validator": "x"}', '{"url": "URL", "validator": 3}'])
def test_unusable_notes_do_not_join_versions(web, tmp_path, notes):
    web.pages["/a"] = Page(BODY)
    unchecked = attempt(web.url + "/a", tmp_path, can_be_checked=False)
    unchecked.part.write_bytes(b"of another version")
    unchecked.notes.write_text(notes.replace("URL", unchecked.url))
    fetching.fetch(unchecked)
    assert unchecked.part.read_bytes() == BODY
    assert web.asked == [("/a", None, None)]


def test_redirections_to_other_schemes_are_refused(web, tmp_path):
    web.pages["/a"] = Page(b"", statuses=[302], location="ftp://example.invalid/a")
    with pytest.raises(fetching.Refused, match="it redirects from http to ftp://example.invalid/a"):
        fetching.fetch(attempt(web.url + "/a", tmp_path))


def test_redirections_stay_encrypted():
    (redirects,) = (
        each for each in fetching.make_opener(fetching.Refused).handlers if isinstance(each, HTTPRedirectHandler)
    )

    def redirect(old, new):
        return redirects.redirect_request(Request(old), None, 302, "Found", {}, new).full_url

    assert redirect("https://a.invalid/x", "https://b.invalid/y") == "https://b.invalid/y"
    assert redirect("http://a.invalid/x", "https://b.invalid/y") == "https://b.invalid/y"
    with pytest.raises(fetching.Refused, match="it redirects from https to http://b.invalid/y"):
        redirect("https://a.invalid/x", "http://b.invalid/y")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (ssl.SSLCertVerificationError("certificate has expired"), fetching.Refused),
        (ssl.SSLError("record layer failure"), fetching.Unfinished),
    ],
)
def test_wrong_certificates_are_final(tmp_path, monkeypatch, reason, kind):
    def fail(*_, **__):
        raise URLError(reason)

    monkeypatch.setattr(fetching, "make_opener", lambda _: SimpleNamespace(open=fail))
    with pytest.raises(kind, match="certificate has expired|record layer failure"):
        fetching.fetch(attempt("https://example.invalid/a", tmp_path))


def test_a_server_of_another_protocol(tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.wfile.write(b"SSH-2.0-server\r\n")

        def log_message(self, *_):
            pass

    with LocalServer(Handler) as server, pytest.raises(fetching.Unfinished, match="BadStatusLine: SSH-2.0-server"):
        fetching.fetch(attempt(server.url + "/a", tmp_path))


@pytest.mark.parametrize(
    ("asked", "wait_s"), [("7", 7), ("9999", 120), ("Sat, 21 Nov 2026 10:00:05 GMT", 0), ("-1", 0)]
)
def test_servers_may_ask_for_a_pause(tmp_path, asked, wait_s):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(503)
            self.send_header("Retry-After", asked)
            self.end_headers()

        def log_message(self, *_):
            pass

    with LocalServer(Handler) as server, pytest.raises(fetching.Unfinished, match="503") as caught:
        fetching.fetch(attempt(server.url + "/a", tmp_path))
    assert caught.value.wait_s == wait_s


def test_a_server_that_sends_too_slowly_is_left(web, tmp_path, monkeypatch):
    times = iter(range(0, 10**6, 21))
    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=lambda: next(times)))
    web.pages["/a"] = Page(BODY, chunks=100)
    slow = attempt(web.url + "/a", tmp_path)
    with pytest.raises(fetching.Unfinished, match="^100 bytes in 20 s$"):
        fetching.fetch(slow)
    assert slow.part.read_bytes() == BODY[:100]  # kept for the next attempt
