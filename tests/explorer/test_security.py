"""Who may talk to the page, and how much they may say. No browser: requests to the server itself."""

from __future__ import annotations

import random
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Done
from spinodal.errors import InputError
from spinodal.explorer import server
from spinodal.explorer.app import make_app
from spinodal.explorer.security import LONGEST_REQUEST, host_allowed, is_loopback, protect

PORT = 8050
HERE = {"Host": f"127.0.0.1:{PORT}"}
SOURCE = Path(server.__file__).parent


@pytest.fixture(scope="module")
def client() -> Any:
    app = make_app()
    protect(app, "127.0.0.1", PORT)
    return app.server.test_client()


def ask(client: Any, values: dict[str, Any], output: str = "readout", headers: dict[str, str] | None = None) -> Any:
    """The question of a callback, as the page would put it: `values` by "id.property"."""
    known = client.get("/_dash-dependencies", headers=HERE).get_json()
    one = next(each for each in known if output in each["output"] and not each.get("clientside_function"))
    names = re.findall(r"([\w-]+)\.([\w]+)", one["output"].strip("."))
    wires = {
        kind: [{**each, "value": values.get(f"{each['id']}.{each['property']}")} for each in one[kind]] for kind in ("inputs", "state")
    }
    outputs = [{"id": id, "property": name} for id, name in names]
    body = {"output": one["output"], "outputs": outputs if len(outputs) > 1 else outputs[0], **wires, "changedPropIds": list(values)}
    return client.post("/_dash-update-component", json=body, headers=headers or HERE)


def mutated(value: Any, rng: random.Random) -> Any:
    """The same with one thing in it replaced, left out or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(sorted(value))
        if rng.random() < 0.2:
            return {other: value[other] for other in value if other != name}
        return {**value, name: mutated(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        if rng.random() < 0.2:
            return [*value, value[place]]
        return [*value[:place], mutated(value[place], rng), *value[place + 1 :]]
    return rng.choice([None, [], {}, "", "x", -1, 1e308, True, [[]], {"id": {}}, "..", "a.b", "\x00", 10**400])


def test_mutated_questions_are_answered_or_refused(client: Any) -> None:
    known = client.get("/_dash-dependencies", headers=HERE).get_json()
    rng, codes = random.Random(19), set()
    for _ in range(400):
        one = rng.choice(known)
        wires = {kind: [{**each, "value": None} for each in one[kind]] for kind in ("inputs", "state")}
        outputs = [{"id": id, "property": name} for id, name in re.findall(r"([\w-]+)\.([\w]+)", one["output"].strip("."))]
        body = {"output": one["output"], "outputs": outputs if len(outputs) > 1 else outputs[0], **wires, "changedPropIds": []}
        for _ in range(rng.randint(1, 3)):
            body = mutated(body, rng)
        codes.add(client.post("/_dash-update-component", json=body, headers=HERE).status_code)
    assert codes <= {200, 204, 400}
    assert {200, 400} <= codes


def test_the_page_is_served_with_its_doors_closed(client: Any) -> None:
    answer = client.get("/", headers=HERE)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'self' 'sha256-" in policy
    # Nothing on the page is asked from elsewhere.
    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", answer.text)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8050", "127.0.0.1:9999", "127.0.0.1.evil.example:8050", "", "localhost", "[::1", "10.0.0.1:8050"]
)
def test_a_foreign_host_is_refused(client: Any, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "LOCALHOST:8050", "[::1]:8050"])
def test_our_own_host_is_not(client: Any, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8050", "http://127.0.0.1:9999", "http://localhost:8050"]
)
def test_a_foreign_origin_is_refused(client: Any, origin: str) -> None:
    assert client.post("/_dash-update-component", json={}, headers={**HERE, "Origin": origin}).status_code == 403
    assert client.get("/_dash-layout", headers={**HERE, "Origin": origin}).status_code == 403


def test_our_own_origin_is_not(client: Any) -> None:
    answer = ask(client, {"url.search": "?pi=6"}, "message", {**HERE, "Origin": "http://127.0.0.1:8050"})
    assert answer.status_code == 200


def test_everywhere_means_numbers_and_our_name_only() -> None:
    assert host_allowed("192.168.1.5:8050", "0.0.0.0", PORT)
    assert host_allowed(f"{socket.gethostname()}:8050", "0.0.0.0", PORT)
    assert not host_allowed("evil.example:8050", "0.0.0.0", PORT)
    assert not host_allowed("192.168.1.5:8050", "127.0.0.1", PORT)


def test_long_requests_are_refused(client: Any) -> None:
    answer = client.post("/_dash-update-component", data=b"x" * (LONGEST_REQUEST + 1), content_type="application/json", headers=HERE)
    assert answer.status_code == 413


def test_bad_values_in_the_address_are_named_on_the_page(client: Any) -> None:
    answer = ask(client, {"url.search": "?alpha=99&pi=6"}, "message").get_json()["response"]
    assert "alpha must be a number from 0.05 to 2, but '99' was given." in answer["message"]["children"]


@pytest.mark.parametrize(
    "state",
    [
        {"alpha": "99"},
        {"n": "100000"},
        {"x": "__import__('os').system('true')"},
        {"path": "/etc/passwd"},
        "alpha",
        {"alpha": "0.5", "eta": "nan"},
    ],
)
def test_states_that_the_page_could_not_send_are_refused(client: Any, state: Any) -> None:
    for path in ("/figures", "/diagram"):
        assert client.post(path, json=state, headers=HERE).status_code == 400
    assert ask(client, {"state.data": state}, "readout").status_code == 400
    assert ask(client, {"start.n_clicks": 1, "state.data": state}, "run.data").status_code == 400


def test_sizes_are_bounded(client: Any) -> None:
    answer = ask(client, {"start.n_clicks": 1, "state.data": {"pi": "100"}, "instance.data": {"n": 400, "seed": 0}}, "run.data")
    assert "entries" in answer.get_json()["response"]["live"]["data"]["refused"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"which": "../../etc/passwd", "format": "csv"},
        {"which": "diagram", "format": "/etc/passwd"},
        {"which": "diagram", "format": "svg"},
        {"which": ["diagram"], "format": "csv"},
        "diagram",
        None,
    ],
)
def test_no_path_from_the_client_is_a_file(client: Any, wanted: Any) -> None:
    assert ask(client, {"wanted.data": wanted, "state.data": {}}, "download.data").status_code == 400


@pytest.mark.parametrize(
    "path", ["/assets/../app.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd", "/_dash-component-suites/dash/../../app.py"]
)
def test_nothing_but_assets_is_served(client: Any, path: str) -> None:
    answer = client.get(path, headers=HERE)
    assert b"def make_app" not in answer.data
    assert b"root:x:" not in answer.data


def test_nothing_is_evaluated() -> None:
    for path in [*SOURCE.glob("*.py"), *SOURCE.glob("assets/*.js")]:
        assert not re.search(r"(?<![\w.])(eval|exec|Function|pickle|subprocess)\s*\(|innerHTML", path.read_text()), path.name


def test_loopback_unless_told_otherwise(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.1.5")

    class Served:
        host, port = "x", 0

        def serve_forever(self) -> None: ...
        def server_close(self) -> None: ...

    monkeypatch.setattr(server, "make_server", lambda host, port: Served())
    monkeypatch.setattr("spinodal.explorer.preview.warm_up", lambda: None)
    server.explore("127.0.0.1", 0, open_browser=False)
    assert capsys.readouterr().err == ""
    server.explore("0.0.0.0", 0, open_browser=False)
    assert "warning: 0.0.0.0 can be reached from other computers" in capsys.readouterr().err


def test_a_taken_port_and_missing_dash_are_one_sentence(
    spinodal_command: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, out, err = spinodal_command("explore", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert (code, out) == (2, "")
    assert err.startswith("spinodal: host and port must be free")
    assert spinodal_command("explore", "--port", "70000", "--no-browser").code == 2
    for host in ("a" * 300, "a..b", "x\0", "\udcff", "no.such.host.invalid"):
        code, out, err = spinodal_command("explore", "--no-browser", "--port", "0", "--host", host)
        assert (code, out) == (2, "")
        assert err.startswith("spinodal: host and port must be free")
        assert len(err.splitlines()) == 1
        assert len(err) < 300
    monkeypatch.setitem(sys.modules, "dash", None)
    with pytest.raises(InputError, match=r"pip install 'spinodal\[explorer\]'"):
        server.make_server()
