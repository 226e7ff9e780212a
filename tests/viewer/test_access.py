"""Who may look."""

import pytest
from starlette.testclient import TestClient
from tests.viewer.conftest import HOST, PORT

from headrace.viewer.access import loopback_hosts


def test_a_token_becomes_a_strict_cookie(client_for, shown):
    client = client_for(shown)
    client.cookies.clear()
    assert client.get("/0/").status_code == 403
    assert client.get("/0/?token=wrong").status_code == 403
    answer = client.get(f"/0/?row=3&token={client.access.token}")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.access.token not in cookie
    assert 'href="/0/?row=3"' in answer.text
    assert "token" not in answer.text
    assert client.get("/0/?row=3").status_code == 200


@pytest.mark.parametrize(
    "other",
    [
        'json={"a": 1}',
        "a b=c",
        "user@host=1",
        "noequals",
        "path/x=1",
        'x="unterminated',
        "utf=é",
        "expires=Thu, 01 Jan",
    ],
)
def test_cookies_of_other_programs_change_nothing(client, other):
    own = next(iter(client.cookies.jar))
    ours = f"{own.name}={own.value}"
    client.cookies.clear()
    for cookies in (f"{other}; {ours}", f"{ours}; {other}"):
        assert client.get("/0/", headers={"cookie": cookies.encode("utf-8")}).status_code == 200
    assert client.get("/0/", headers={"cookie": other.encode("utf-8")}).status_code == 403
    assert client.get("/0/", headers={"cookie": f"{own.name}=x; {other}".encode()}).status_code == 403


def test_another_viewers_cookie_is_refused(client_for, shown):
    first, second = client_for(shown), client_for(shown)
    cookie = next(iter(first.cookies.jar))
    second.cookies.clear()
    second.cookies.set(cookie.name, cookie.value)
    assert second.get("/0/").status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        "",
        f"localhost:{PORT}.evil.example",
    ],
)
def test_other_hosts_are_refused(client, host):
    assert client.get("/0/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", sorted(loopback_hosts(PORT)))
def test_the_names_of_this_machine(client, host):
    assert client.get("/0/", headers={"host": host}).status_code in (200, 403)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get(client, method):
    answer = client.request(method, "/0/")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/0/",
        "/0/?row=1",
        "/0/schema",
        "/0/grid",
        "/0/faults",
        "/0/order",
        "/nowhere",
        "/static/style.css",
        "/0/?where=label%20%3D%201",
    ],
)
def test_every_answer_forbids_what_it_does_not_need(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"


def test_the_page_without_access_holds_no_data(client_for, shown):
    client = client_for(shown)
    client.cookies.clear()
    for path in ("/", "/0/", "/0/image?row=0&feature=image", "/endpoints", "/compare", "/nowhere"):
        answer = client.get(path, headers={"accept": "application/json"})
        assert answer.status_code == 403
        assert shown.name not in answer.text
    assert client.get("/static/style.css").status_code == 200
    assert client.get("/static/../app.py").status_code in (403, 404)
    assert client.get("/static/%2e%2e/app.py").status_code in (403, 404)


def test_a_target_is_a_path_of_this_viewer(client_for, shown):
    client = client_for(shown)
    answer = client.get(f"//evil.example/?token={client.access.token}")
    assert "//evil" not in answer.text.replace("http://", "")
    assert 'href="/' in answer.text


def test_a_frame_has_its_key_in_the_path(client_for, shown):
    client = client_for(shown, is_embedded=True)
    base = client.access.base
    assert len(base) > 40
    answer = client.get(f"{base}/0/")
    assert answer.status_code == 200
    assert f'href="{base}/static/style.css"' in answer.text
    assert "frame-ancestors http://localhost:*" in answer.headers["content-security-policy"]
    assert "x-frame-options" not in answer.headers
    assert client.get(f"{base}/static/style.css").status_code == 200
    for path in ("/0/", "/wrong/0/", f"{base[:-1]}/0/"):
        assert client.get(path).status_code == 403


def test_a_program_gets_json_for_the_token(client_for, shown_file):
    client = client_for(shown_file)
    program = TestClient(client.access, base_url=HOST)
    answer = program.get(f"/0/?format=json&count=2&token={client.access.token}")
    assert [row["row"] for row in answer.json()["rows"]] == [0, 1]
    answer = program.get(f"/0/?token={client.access.token}", headers={"accept": "application/json"})
    assert answer.json()["examples"] == 300
    assert program.get("/0/?format=json&token=x").status_code == 403


def test_browsers_leave_out_port_80():
    assert {"127.0.0.1", "localhost", "[::1]", "localhost:80"} <= loopback_hosts(80)
    assert "localhost" not in loopback_hosts(8080)
