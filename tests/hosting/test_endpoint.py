"""Named endpoints: found, invoked and deleted from other processes; remains of dead ones; refusals."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from tests.hosting.places import children, lives, sample, wait

from headrace.errors import HeadraceError
from headrace.hosting import endpoint as module
from headrace.hosting.client import Client, ModelError
from headrace.hosting.endpoint import EndpointError, create_endpoint, find_endpoint, list_endpoints
from headrace.hosting.registry import EndpointEntry, state_folder
from headrace.hosting.settings import Settings

ONE = Settings(port=0, workers=1)


@pytest.fixture
def endpoint():
    return create_endpoint("abalone", [sample("obedient")], settings=ONE)


def run(code):
    """Python in another process, with the same state folder."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_endpoint_from_its_creation_to_its_end(endpoint):
    assert endpoint.status == "InService"
    assert repr(endpoint) == "Endpoint('abalone', InService)"
    answer = endpoint.invoke("hello", content_type="text/csv", custom_attributes="trace=1", inference_id="x1")
    assert (answer.body, answer.content_type, answer.custom_attributes) == (b"HELLO", "text/plain", "seen")
    assert answer.production_variant == "AllTraffic"
    reported = endpoint.describe()
    assert json.loads(json.dumps(reported)) == reported
    assert (reported["status"], reported["containers"], reported["reason"]) == ("InService", ["container-1"], None)
    assert "is ready" in endpoint.logs()
    assert endpoint.logs(1).count("\n") == 1
    pid = endpoint.pid
    workers = children(pid)
    endpoint.delete()
    assert not any(map(lives, [pid, *workers]))
    assert list_endpoints() == []
    endpoint.delete()
    assert endpoint.status == "Stopped"
    with pytest.raises(EndpointError, match="abalone is Stopped: it does not run"):
        endpoint.invoke("hello")


def test_other_processes_find_it(endpoint):
    code = "from headrace.hosting.endpoint import *; e = find_endpoint('abalone'); "
    assert run(code + "print(e.invoke('hello').body.decode(), e.status, e.pid)") == f"HELLO InService {endpoint.pid}"
    assert run(code + "print([e.name for e in list_endpoints()])") == "['abalone']"
    run(code + "e.delete()")
    assert endpoint.status == "Stopped"
    assert list_endpoints() == []


def test_it_outlives_its_creator(tmp_path):
    from tests.hosting.places import CONTAINERS

    run(
        "from headrace.hosting.endpoint import *; from headrace.hosting.stage import Stage; "
        "from headrace.hosting.settings import Settings; "
        f"stage = Stage(factory='sample_containers:obedient', path=({str(CONTAINERS)!r},)); "
        "create_endpoint('left', [stage], settings=Settings(port=0, workers=1))"
    )
    assert find_endpoint("left").invoke("hello").body == b"HELLO"


def test_failures_are_sagemakers(endpoint):
    with pytest.raises(ModelError) as caught:
        endpoint.invoke("refuse 415 not this")
    assert str(caught.value) == 'Received client error (415) from primary with message "not this"'
    assert (caught.value.status, caught.value.original_status, caught.value.original_message) == (424, 415, "not this")
    with pytest.raises(ModelError, match=r"Received server error \(500\) from primary with message \"'it'\""):
        endpoint.invoke("raise it")
    with pytest.raises(ModelError, match=r"\(418\) from primary with message \"tea\""):
        endpoint.invoke("status 418 tea")
    with pytest.raises(ModelError, match=r"Received server error \(503\) from primary"):
        endpoint.invoke("die")
    assert endpoint.invoke("hello").body == b"HELLO"


def test_failures_of_a_pipeline_name_the_container():
    endpoint = create_endpoint("two", [sample("echo"), sample("refuser")], settings=ONE)
    with pytest.raises(
        ModelError, match=r"Received client error \(415\) from container-2 with message \"application/json; from=\""
    ):
        endpoint.invoke("x")


def test_time_is_up():
    endpoint = create_endpoint("slow", [sample("obedient")], settings=Settings(port=0, workers=1, timeout_s=0.3))
    with pytest.raises(
        ModelError, match=r"Received server error \(0\) from primary with message \"Your invocation timed out"
    ):
        endpoint.invoke("sleep 60")


def test_direct_mode():
    stages = [sample("echo", name="a", arguments={"mark": "1"}), sample("echo", name="b", arguments={"mark": "2"})]
    endpoint = create_endpoint("direct", stages, settings=ONE, direct=True)
    assert json.loads(endpoint.invoke("x", target_container_hostname="b").body)["mark"] == "2"


def test_names_are_taken_once(endpoint):
    with pytest.raises(EndpointError, match="the endpoint 'abalone' already exists"):
        create_endpoint("abalone", [sample("obedient")], settings=ONE)
    assert endpoint.status == "InService"
    for name in ("", "a b", "../x", "-a", "a-", "x" * 64):
        with pytest.raises(ValueError, match="name of an endpoint"):
            create_endpoint(name, [sample("obedient")])


def test_concurrent_claims_of_a_name():
    outcomes = []

    def create():
        try:
            outcomes.append(create_endpoint("wanted", [sample("obedient")], settings=ONE).status)
        except HeadraceError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("InService") == 1
    assert sum("already" in outcome for outcome in outcomes) == 3


def test_a_model_that_does_not_load():
    with pytest.raises(EndpointError) as caught:
        create_endpoint("bad", [sample("refuses_to_load")], settings=ONE)
    message = str(caught.value)
    assert message.startswith(
        "the endpoint bad cannot be created: the model does not load: FileNotFoundError: no model here\n"
    )
    assert "in refuses_to_load" in message  # the end of the log
    endpoint = find_endpoint("bad")
    assert endpoint.status == "Failed"
    assert endpoint.describe()["reason"] == "the model does not load: FileNotFoundError: no model here"
    assert create_endpoint("bad", [sample("obedient")], settings=ONE).status == "InService"


def test_a_model_that_takes_too_long():
    with pytest.raises(
        EndpointError, match=r"not in service within 1\.5 s: (the model is still being loaded|it does not run)"
    ):
        create_endpoint("late", [sample("slow_to_load")], settings=ONE, wait_s=1.5)
    assert find_endpoint("late").status == "Failed"


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EndpointError, match=f"cannot listen on 127.0.0.1:{port}"):
            create_endpoint("taken", [sample("obedient")], settings=Settings(port=port, workers=1))


def test_one_that_was_killed_is_known_to_be_dead(endpoint):
    pid = endpoint.pid
    workers = children(pid)
    os.kill(pid, signal.SIGKILL)
    wait(lambda: endpoint.status == "Stopped")
    wait(lambda: not any(map(lives, workers)))
    assert (endpoint.pid, endpoint.address) == (None, None)
    assert [found.status for found in list_endpoints()] == ["Stopped"]
    with pytest.raises(EndpointError, match="does not answer|is Stopped"):
        endpoint.invoke("hello")
    again = create_endpoint("abalone", [sample("obedient")], settings=ONE)
    assert again.invoke("hello").body == b"HELLO"


def test_a_process_of_another_user_is_left_alone(tmp_path):
    """After a reboot, the process ID in the state may belong to any process."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        entry = EndpointEntry("old")
        os.close(entry.claim())
        entry.write("spec", {"stages": [], "settings": {}, "direct": False})
        entry.write("state", {"pid": other.pid, "address": "http://127.0.0.1:1", "created": 0})
        old = find_endpoint("old")
        assert (old.status, old.pid) == ("Stopped", None)
        old.delete()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_damaged_registry_is_ignored(endpoint):
    (state_folder() / "endpoints" / "stray").mkdir()
    (state_folder() / "endpoints" / "no name!").mkdir()
    entry = EndpointEntry("abalone")
    whole = (entry.folder / "state.json").read_bytes()
    for length in range(0, len(whole), 7):
        (entry.folder / "state.json").write_bytes(whole[:length])
        assert endpoint.describe()["name"] == "abalone"
        assert [found.name for found in list_endpoints()] == ["abalone"]
    (entry.folder / "state.json").write_bytes(whole)
    assert endpoint.status == "InService"


def test_missing_files():
    with pytest.raises(EndpointError, match="no endpoint is named 'nope'; existing endpoints: none"):
        find_endpoint("nope")
    with pytest.raises(ConnectionError, match="no endpoint listens at http://127.0.0.1:1"):
        Client("http://127.0.0.1:1").invoke("x")
    with pytest.raises(ValueError, match="http://host:port"):
        Client("ftp://x")


def test_an_archive_is_unpacked(tmp_path):
    import tarfile

    (tmp_path / "model.txt").write_text("learned")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "model.txt", "model.txt")
    stage = sample("Container", model_dir=str(tmp_path / "model.tar.gz"))
    endpoint = create_endpoint("packed", [stage], settings=ONE)
    assert endpoint.invoke("x").body == b"learned"


def test_a_damaged_archive_is_reported(tmp_path):
    (tmp_path / "model.tar.gz").write_bytes(b"\x1f\x8b no archive")
    with pytest.raises(EndpointError, match=r"cannot be created: CorruptFile: expected a model\.tar\.gz"):
        create_endpoint("packed", [sample("Container", model_dir=str(tmp_path / "model.tar.gz"))], settings=ONE)


def test_a_connection_that_the_endpoint_has_closed_is_opened_again():
    """A kept-alive connection may be closed before the next request."""
    listening = socket.create_server(("127.0.0.1", 0))
    accepted = []

    def serve():
        for _ in range(2):
            connection, _ = listening.accept()
            accepted.append(connection)
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: a/b\r\n\r\nok")
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}")
    assert [client.invoke("a").body, client.invoke("b").body] == [b"ok", b"ok"]
    thread.join()
    client.close()
    listening.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other places elsewhere")
def test_the_folder_of_the_records_is_in_the_users_state(tmp_path, monkeypatch):
    assert str(state_folder()) == os.environ["HEADRACE_STATE_DIR"]
    monkeypatch.delenv("HEADRACE_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "headrace"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "headrace"


def test_a_handle_of_a_deleted_endpoint_does_not_ask_the_next_one_at_its_port():
    first = create_endpoint("first", [sample("Versioned", arguments={"mark": "1"})], settings=ONE)
    address = first.address
    assert first.invoke("x").body == b"1:x"
    find_endpoint("first").delete()
    port = int(address.rpartition(":")[2])
    second = create_endpoint(
        "second", [sample("Versioned", arguments={"mark": "2"})], settings=Settings(port=port, workers=1)
    )
    assert second.address == address
    for _ in range(2):
        with pytest.raises(EndpointError, match="the endpoint first is Stopped: it does not run"):
            first.invoke("x")
    assert second.invoke("x").body == b"2:x"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on": "Ray"}, ValueError, "on must be 'processes' or 'ray', got 'Ray'"),
        ({"on": "kubernetes"}, ValueError, "on must be 'processes' or 'ray', got 'kubernetes'"),
        ({"replicas": 4}, ValueError, "replicas: only with on='ray', and on is 'processes'"),
        ({"address": "a:1", "resources": {"GPU": 9}}, ValueError, "address and resources: only with on='ray'"),
        ({"on": "ray", "resources": {"CPU": "1"}}, TypeError, "resources are names and numbers"),
        ({"on": "ray", "resources": {"CPU": -1}}, ValueError, "amounts of at least 0"),
        ({"on": "ray", "resources": 2}, TypeError, "resources must be a dict"),
    ],
)
def test_where_an_endpoint_runs(options, error, message):
    with pytest.raises(error, match=message):
        create_endpoint("abalone", [sample("obedient")], settings=ONE, **options)
    assert list_endpoints() == []


def test_an_update_that_another_one_replaces_ends(monkeypatch):
    entry = EndpointEntry("updated")
    claim = entry.claim()
    monkeypatch.setattr(module, "REPLACED_S", 0.2)
    try:
        entry.write("spec", {"version": "newer"})
        entry.write("state", {"settled": {"older": None}})
        endpoint = find_endpoint("updated")
        endpoint._wait_for("older", 60)
        with pytest.raises(EndpointError, match="the update of the endpoint updated was replaced by another one"):
            endpoint._wait_for("old", 60)
    finally:
        os.close(claim)
        entry.remove()
