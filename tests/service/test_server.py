"""`samekind serve` as a process: its link, its end, and what the wheel holds."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from samekind.gallery import Gallery
from samekind.service.api import PAGE, page_file
from samekind.service.server import listening_socket
from tests.service.conftest import TOKEN

ROOT = Path(__file__).parents[2]
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PNG = {"Content-Type": "image/png"}


def start(*arguments, **environment):
    command = [sys.executable, "-m", "samekind", "serve", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("Token"):
            break
    return process, said


def ended(process, status=0):
    out, problems = process.communicate(timeout=60)
    assert process.returncode == status, problems
    assert "Traceback" not in problems
    return out, problems


@pytest.mark.slow
def test_it_prints_a_link_and_ends_cleanly_with_requests_under_way(own):
    process, said = start(own.gallery, "--port", 0, SAMEKIND_TOKEN=TOKEN)
    address = re.search(r"http://127\.0\.0\.1:\d+", said)[0]
    assert "30 entries" in said
    assert TOKEN not in said  # it is known to whoever set it
    with httpx.Client(base_url=address, headers=BEARER, timeout=60) as client:
        data = own.picture(11, 0).read_bytes()
        name = client.post("/api/pictures", content=data, headers=PNG).json()["picture"]
        answers, problems = [], []

        def keep_asking():
            with httpx.Client(base_url=address, headers=BEARER, timeout=60) as mine:
                while True:
                    try:
                        answers.append(mine.post("/api/entries", json={"picture": name, "label": "x"}).status_code)
                    except httpx.TransportError as error:  # it has ended
                        problems.append(error)
                        return

        askers = [threading.Thread(target=keep_asking) for _ in range(3)]
        for asker in askers:
            asker.start()
        while len(answers) < 5:
            pass
        process.send_signal(signal.SIGTERM)
        for asker in askers:
            asker.join(60)
    out, stderr = ended(process)
    assert "Ended." in out
    assert not stderr.strip()
    assert set(answers) <= {201, 429}
    with Gallery.open(own.gallery) as gallery:
        # What was answered is there; a request whose answer was cut off may be, too.
        assert answers.count(201) <= len(gallery.find(label="x")) <= answers.count(201) + 3
        assert not gallery.check().problems


@pytest.mark.slow
def test_a_gallery_on_a_server_is_searched_and_changed(own, server):
    from samekind.cli.main import app

    secret = f"{server}&gallery=served_{secrets.token_hex(4)}"
    copied = CliRunner().invoke(app, ["gallery", "copy", str(own.gallery), secret])
    assert copied.exit_code == 0, copied.output
    process, said = start(secret, "--port", 0, SAMEKIND_TOKEN=TOKEN)
    assert "30 entries" in said
    address = re.search(r"http://127\.0\.0\.1:\d+", said)[0]
    with httpx.Client(base_url=address, headers=BEARER, timeout=600) as client:
        data = own.picture(4, 3).read_bytes()
        sent = {"picture": client.post("/api/pictures", content=data, headers=PNG).json()["picture"]}
        found = client.post("/api/search", json=sent | {"k": 5}).json()
        with Gallery.open(own.gallery, read_only=True) as folder:
            expected = folder.search(own.metric.encode([own.picture(4, 3)])[0], 5)
        assert [hit["id"] for hit in found["hits"]] == [hit.record.id for hit in expected.hits]
        assert [hit["distance"] for hit in found["hits"]] == pytest.approx([hit.distance for hit in expected.hits])
        entry = client.post("/api/entries", json=sent | {"label": "new"}).json()
        assert client.post("/api/search", json=sent | {"k": 1}).json()["hits"][0]["id"] == entry["id"]
        assert client.get(f"/api/entries/{entry['id']}/thumbnail").status_code == 200
        assert client.post("/api/doctor", json={}).status_code == 200
        assert client.request("DELETE", f"/api/entries/{entry['id']}").json()["ids"] == [entry["id"]]
        assert client.get(f"/api/entries/{entry['id']}").status_code == 404
        assert client.get("/api/info").json()["gallery"]["entries"] == 30
    process.terminate()
    ended(process)


def test_answers_are_sent_at_once():
    """asyncio sets TCP_NODELAY on connections that are named TCP; on others, small answers wait 40 ms."""
    with listening_socket("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname(), timeout=10):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


def test_a_taken_port_is_named():
    with listening_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"127.0.0.1:{port} cannot be listened on"),
            listening_socket("127.0.0.1", port),
        ):
            pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Give a gallery"),
        (("--demo", "x"), "leave out the others"),
        (("x", "--host", "0.0.0.0"), "--allow-host"),
        (("--model", "none.safetensors"), "no such model file"),
        (("nothing.gallery",), "is not a gallery"),
    ],
)
def test_what_cannot_be_served_is_explained(arguments, words):
    from samekind.cli.main import app

    result = CliRunner().invoke(app, ["serve", "--port", "0", *arguments])
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_gallery_of_another_model_is_refused(home, tmp_path):
    from samekind.cli.main import app

    other = home.metric.with_mirror("none")
    other.save(tmp_path / "other.safetensors")
    result = CliRunner().invoke(
        app, ["serve", str(home.gallery), "--model", str(tmp_path / "other.safetensors"), "--port", "0"]
    )
    assert result.exit_code == 2
    assert "distances between them mean nothing" in result.stderr.replace("\n", " ")


@pytest.mark.slow
def test_the_wheel_holds_the_page(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    made = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / made.stdout.split()[-1]) as wheel:
        for name in PAGE.values():
            assert wheel.read(f"samekind/service/page/{name}") == page_file(name)


def test_sockets_are_closed():
    with listening_socket("127.0.0.1", 0) as bound:
        address = bound.getsockname()
    with pytest.raises(OSError), socket.create_connection(address, timeout=1):  # noqa: PT011
        pass
