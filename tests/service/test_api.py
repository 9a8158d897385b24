"""The API: the same as the Python calls, and what it refuses."""

import io
import json
import threading
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient

from samekind import Metric
from samekind.gallery import Gallery
from samekind.service.api import PAGE, Limits, create_app
from samekind.service.engine import Chosen, Engine
from samekind.service.errors import Refusal
from samekind.service.guard import HEADERS, LOOPBACK, Tokens
from samekind.service.lanes import Lane
from samekind.threads import effective_threads
from tests.service.conftest import TOKEN

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def client_of(engine, **options):
    app = create_app(engine, Tokens(TOKEN), [*LOOPBACK], **options)
    return TestClient(app, base_url="http://127.0.0.1:8765", headers=BEARER, raise_server_exceptions=True)


@pytest.fixture(scope="module")
def client(home):
    """Reads only."""
    with client_of(Engine(home.metric, Gallery.open(home.gallery))) as client:
        yield client


@pytest.fixture
def changing(own):
    with client_of(Engine(own.metric, Gallery.open(own.gallery))) as client:
        yield client


def sent(client, path_or_bytes, status=201, **options):
    data = path_or_bytes if isinstance(path_or_bytes, bytes) else path_or_bytes.read_bytes()
    answer = client.post("/api/pictures", content=data, headers={"Content-Type": "image/png"}, **options)
    assert answer.status_code == status, answer.text
    return answer.json()


def names(client, home, *which):
    return [sent(client, home.picture(*each))["picture"] for each in which]


def png(width, height, colour=128):
    file = io.BytesIO()
    Image.new("L", (width, height), colour).save(file, "PNG")
    return file.getvalue()


def refusal(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"].endswith(".")
    return answer.json()["error"]["message"]


def test_verify_is_the_python_call(client, home):
    metric, paths = home.metric, [home.picture(0, 0), home.picture(0, 1)]
    a, b = names(client, home, (0, 0), (0, 1))
    answer = client.post("/api/verify", json={"a": a, "b": b, "prior": 0.2}).json()
    codes = metric.encode(paths)
    distance = float(metric.code_distance(codes[:1], codes[1:])[0])
    assert answer["distance"] == pytest.approx(distance, rel=1e-4)
    assert answer["same"] == (distance <= metric.threshold)
    assert answer["probability"] == pytest.approx(float(metric.calibration.probability([distance], 0.2)[0]), rel=1e-3)
    assert answer["threshold"] == metric.threshold
    far = client.post("/api/verify", json={"a": a, "b": b, "far": 0.1}).json()
    assert far["threshold"] == pytest.approx(metric.calibration.threshold_at(0.1))
    assert far["false_match_rate"] == metric.calibration.false_match_rate(far["threshold"])


def test_explain_is_the_python_call(client, home):
    a, b = names(client, home, (0, 0), (3, 1))
    answer = client.post("/api/explain", json={"a": a, "b": b}).json()
    expected = home.metric.explain(home.picture(0, 0), home.picture(3, 1)).to_json()
    assert answer["distance"] == pytest.approx(expected["distance"])
    assert sum(each["term"] for each in answer["regions"]) == pytest.approx(answer["distance"])
    assert [each["group"] for each in answer["regions"]] == [each["group"] for each in expected["regions"]]
    assert answer["crop"] == {"width": 40, "height": 56, "margin": [0, 0]}


def test_search_is_the_python_call(client, home):
    (picture,) = names(client, home, (4, 3))
    answer = client.post("/api/search", json={"picture": picture, "k": 5}).json()
    with Gallery.open(home.gallery, read_only=True) as gallery:
        expected = gallery.search(home.metric.encode([home.picture(4, 3)])[0], 5)
    assert [hit["id"] for hit in answer["hits"]] == [hit.record.id for hit in expected.hits]
    np.testing.assert_allclose(
        [hit["distance"] for hit in answer["hits"]], [hit.distance for hit in expected.hits], rtol=1e-4, atol=1e-5
    )
    assert (answer["searched"], answer["people"]) == (30, 10)
    assert (answer["false_match"]["n_entries"], answer["false_match"]["n_people"]) == (30, 10)
    assert all("source" not in hit for hit in answer["hits"])
    only = client.post("/api/search", json={"picture": picture, "k": 100, "labels": ["person 02"]}).json()
    assert {hit["label"] for hit in only["hits"]} == {"person 02"}


def test_an_entry_is_added_found_and_erased(changing, own):
    (picture,) = names(changing, own, (11, 0))
    entry = changing.post("/api/entries", json={"picture": picture, "label": "Änne", "note": "new"}).json()
    assert (entry["label"], entry["note"]) == ("Änne", "new")
    found = changing.post("/api/search", json={"picture": picture, "k": 1}).json()["hits"][0]
    assert found["id"] == entry["id"]
    assert found["distance"] == pytest.approx(0, abs=1e-4)
    thumbnail = changing.get(f"/api/entries/{entry['id']}/thumbnail")
    assert thumbnail.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(thumbnail.content)).size == (40, 56)
    assert changing.get("/api/info").json()["gallery"]["entries"] == 31
    removal = changing.delete(f"/api/entries/{entry['id']}").json()
    assert removal["ids"] == [entry["id"]]
    assert "Erased 1 record:" in removal["in_words"][0]
    refusal(changing.get(f"/api/entries/{entry['id']}"), 404, "no_such_entry")
    refusal(changing.delete(f"/api/entries/{entry['id']}"), 404, "no_such_entry")
    refusal(changing.get(f"/api/entries/{entry['id']}/thumbnail"), 404, "no_thumbnail")
    with Gallery.open(own.gallery, read_only=True) as gallery:
        assert len(gallery) == 30


def test_labels_are_changed(changing, own):
    assert changing.post("/api/relabel", json={"ids": [1, 2], "label": "X"}).json() == {"ids": [1, 2], "label": "X"}
    assert changing.get("/api/entries/1").json()["label"] == "X"
    renamed = changing.post("/api/rename", json={"old": "person 03", "new": "person 04"}).json()
    assert len(renamed["ids"]) == 3
    refusal(changing.post("/api/rename", json={"old": "person 03", "new": "x"}), 404, "no_such_label")
    refusal(changing.post("/api/relabel", json={"ids": [1, 999], "label": "Y"}), 404, "no_such_entry")
    refusal(changing.post("/api/relabel", json={"ids": [True], "label": "Y"}), 400, "bad_request")
    with Gallery.open(own.gallery, read_only=True) as gallery:
        assert gallery.labels()["person 04"] == 6
        assert gallery.record(1).label == "X"  # nothing of a call that names an unknown entry


def test_doctor_is_the_python_call(changing, own):
    (picture,) = names(changing, own, (0, 0))
    added = changing.post("/api/entries", json={"picture": picture, "label": "person 00"}).json()
    found = changing.post("/api/doctor", json={}).json()
    with Gallery.open(own.gallery, read_only=True) as gallery:
        expected = gallery.doctor().to_json()
    assert found["counts"] == expected["counts"]
    assert added["id"] in [record["id"] for each in found["duplicates"] for record in each["records"]]
    assert "source" not in json.dumps(found)


def test_a_picture_is_kept_as_its_crop(client, home):
    made = sent(client, home.picture(0, 0))
    assert (made["width"], made["height"], made["faces"], made["notes"]) == (44, 60, 1, [])
    crop = client.get(f"/api/pictures/{made['picture']}/crops/0")
    assert Image.open(io.BytesIO(crop.content)).size == (40, 56)
    refusal(client.get(f"/api/pictures/{made['picture']}/crops/1"), 422, "no_such_face")
    refusal(client.get(f"/api/pictures/{made['picture']}/crops/x"), 404, "no_such_face")
    refusal(client.get("/api/pictures/none/crops/0"), 404, "no_such_picture")


def test_info_says_what_is_served(client, home):
    info = client.get("/api/info").json()
    assert info["gallery"] == {"name": "gallery", "entries": 30, "labels": 10}
    assert info["model"]["n_regions"] == len(home.metric.groups)
    assert info["model"]["threshold"] == home.metric.threshold
    shown = info["distribution"]
    assert shown["source"] == "gallery"
    for kind in ("same", "other"):
        assert sum(shown[kind]) == pytest.approx(1)
        assert len(shown["edges"]) == len(shown[kind]) + 1


def test_without_a_gallery_pairs_are_compared_and_the_rest_is_refused(home):
    with client_of(Engine(home.metric)) as client:
        a, b = names(client, home, (0, 0), (0, 1))
        assert client.post("/api/verify", json={"a": a, "b": b}).status_code == 200
        assert client.get("/api/info").json()["gallery"] is None
        assert client.get("/api/info").json()["distribution"]["source"] == "calibration"
        assert "samekind serve GALLERY" in refusal(client.post("/api/search", json={"picture": a}), 409, "no_gallery")
        refusal(client.post("/api/entries", json={"picture": a}), 409, "no_gallery")
        refusal(client.delete("/api/entries/1"), 409, "no_gallery")


def bomb():
    """A PNG of 30,000 x 30,000 pixels in a few kilobytes."""

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (30_000).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 10_000))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"not a picture at all", "not a JPEG, PNG"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 100, "broken header"),
        (png(44, 60)[:-40], "broken or cut off"),
        (png(20, 20), "smaller than the crop"),
        (bomb(), "too large: 30000 x 30000"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a JPEG, PNG"),
    ],
)
def test_pictures_that_cannot_be_used_are_explained(client, data, words):
    answer = client.post("/api/pictures", content=data, headers={"Content-Type": "image/png"})
    assert words in refusal(answer, 422, "unusable_picture")


def test_what_is_no_picture_by_its_own_word_is_not_read(client, home):
    answer = client.post("/api/pictures", content=b"x", headers={"Content-Type": "multipart/form-data"})
    refusal(answer, 415, "not_a_picture")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_a_largest_size(home, chunked):
    with client_of(Engine(home.metric), limits=Limits(upload_bytes=50_000)) as client:
        data = (bytes(10_000) for _ in range(20)) if chunked else bytes(200_000)
        answer = client.post("/api/pictures", content=data, headers={"Content-Type": "image/png"})
        assert "0.05 MB" in refusal(answer, 413, "too_large")
        assert client.app.state is not None
        assert sent(client, home.picture(0, 0))["faces"] == 1  # it goes on


def test_bodies_together_have_a_largest_size(home):
    with client_of(Engine(home.metric), limits=Limits(bodies_bytes=1000)) as client:
        answer = client.post("/api/pictures", content=bytes(5000), headers={"Content-Type": "image/png"})
        refusal(answer, 429, "busy")
        assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[" * 100_000, ""),
        (b"[1]", "JSON object"),
        (b"null", "JSON object"),
        (b"\xff\xfe", "no JSON"),
        (b'{"a": "x"}', "b must be a text"),
        (b'{"a": 1, "b": "x"}', "a must be a text"),
        (b'{"a": "x", "b": "y", "c": 1}', "no field 'c'"),
        (b'{"a": "x", "b": "y", "far": 2}', "far must be a number above 0"),
        (b'{"a": "x", "b": "y", "far": NaN}', "no JSON"),
        (b'{"a": "x", "b": "y", "a_face": true}', "a_face must be a whole number"),
        (b'{"a": "x", "b": "y", "a_face": 1e400}', "a_face must be a whole number"),
        (b'{"a": "\\ud800", "b": "y"}', "whole characters"),
    ],
)
def test_json_that_is_not_right_is_explained(client, body, words):
    answer = client.post("/api/verify", content=body, headers={"Content-Type": "application/json"})
    if len(body) > 64_000:
        refusal(answer, 413, "too_large")
    else:
        assert words in refusal(answer, 400, "bad_request")


def test_other_types_and_queries_are_refused(client):
    refusal(client.post("/api/verify", content=b"{}", headers={"Content-Type": "text/plain"}), 415, "not_json")
    refusal(client.get("/api/info?x=1"), 400, "bad_request")
    refusal(
        client.post("/api/pictures?points=1,2", content=b"x", headers={"Content-Type": "image/png"}), 400, "bad_request"
    )
    refusal(client.get("/api/none"), 404, "not_found")
    assert client.put("/api/info").status_code == 405


def test_points_are_for_models_that_take_them(client, home):
    data = home.picture(0, 0).read_bytes()
    answer = client.post("/api/pictures?points=1,2,3,4,5,6", content=data, headers={"Content-Type": "image/png"})
    refusal(answer, 422, "no_points")
    metric = home.metric
    extractor = {**metric.extractor, "alignment": "landmarks"}
    aligned = Metric(metric.basis, metric.components, mirror="mean", threshold=1.0, extractor=extractor)
    with client_of(Engine(aligned)) as by_points:
        refusal(
            by_points.post("/api/pictures", content=data, headers={"Content-Type": "image/png"}), 422, "points_needed"
        )
        made = sent(by_points, data, params={"points": "12,24,30,24,21,42"})
        assert made["faces"] == 1


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Cookie": "samekind=x"}]
)
def test_all_but_the_page_needs_the_token(home, headers):
    with client_of(Engine(home.metric)) as client:
        del client.headers["Authorization"]
        for path in PAGE:
            assert client.get(path, headers=headers).status_code == 200
        for method, path in [
            ("GET", "/api/info"),
            ("GET", "/api/openapi.json"),
            ("GET", "/api/entries/1"),
            ("GET", "/x"),
        ]:
            refusal(client.request(method, path, headers=headers), 401, "unauthorised")
        answer = client.post("/api/verify", json={}, headers={**headers, "Origin": "http://127.0.0.1:8765"})
        refusal(answer, 401, "unauthorised")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_link_gives_a_cookie_once(home):
    tokens = Tokens(TOKEN)
    app = create_app(Engine(home.metric), tokens, LOOPBACK)
    link = tokens.link
    with TestClient(app, base_url="http://localhost:1", follow_redirects=False) as client:
        assert "set-cookie" not in client.get("/?link=wrong").headers
        answer = client.get(f"/?link={link}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert client.get("/api/info").status_code == 200  # the client keeps the cookie
        other = TestClient(app, base_url="http://localhost:1", follow_redirects=False)
        assert "set-cookie" not in other.get(f"/?link={link}").headers


def test_the_token_gives_a_cookie_to_another_browser(home):
    with client_of(Engine(home.metric)) as client:
        assert client.post("/session").status_code == 204
        del client.headers["Authorization"]
        assert client.get("/api/info").status_code == 200
        # With the cookie alone, writes must come from our own page.
        refusal(client.post("/api/verify", json={}), 403, "foreign_origin")
        own = client.post("/api/verify", json={}, headers={"Origin": "http://127.0.0.1:8765"})
        refusal(own, 400, "bad_request")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example", "0.0.0.0"]
)
def test_foreign_hosts_are_refused_even_with_the_token(client, host):
    refusal(client.get("/api/info", headers={"Host": host}), 403, "foreign_host")
    refusal(client.get("/", headers={"Host": host}), 403, "foreign_host")


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "LOCALHOST"])
def test_own_hosts_are_answered(client, host):
    assert client.get("/api/info", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://[", "http://localhost:8765"]
)
def test_writes_of_foreign_pages_are_refused_even_with_the_token(client, origin):
    refusal(client.delete("/api/entries/1", headers={"Origin": origin}), 403, "foreign_origin")
    assert client.get("/api/entries/1").status_code == 200


def test_a_cross_site_fetch_is_refused(client):
    headers = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "cross-site"}
    refusal(client.delete("/api/entries/1", headers=headers), 403, "foreign_origin")


def test_every_answer_has_the_headers(client):
    for answer in (
        client.get("/"),
        client.get("/api/info"),
        client.get("/api/none"),
        client.get("/", headers={"Host": "x"}),
    ):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("token", ["short", "ein schlüssel, der lang genug ist", "with a \n newline inside it"])
def test_a_weak_token_is_refused(token):
    with pytest.raises(ValueError, match="at least 16 characters"):
        Tokens(token)


def test_what_was_sent_is_compared_and_searched_while_uploads_wait(own):
    """Or it would be let go before its turn comes."""
    slow, going, waiting = threading.Event(), threading.Event(), threading.Semaphore(0)

    class Slow(Engine):
        def add_picture(self, *given):
            if not slow.is_set():
                return super().add_picture(*given)
            waiting.release()
            assert going.wait(60)
            return {"picture": "x"}

    engine = Slow(own.metric, Gallery.open(own.gallery))
    with client_of(engine, limits=Limits(waiting=1)) as client:
        a, b = names(client, own, (0, 0), (0, 1))
        slow.set()
        uploads = [
            threading.Thread(target=sent, args=(client, own.picture(0, 0))) for _ in range(effective_threads(None))
        ]
        for upload in uploads:
            upload.start()
        for _ in uploads:
            assert waiting.acquire(timeout=60)
        try:
            assert client.post("/api/verify", json={"a": a, "b": b}).status_code == 200
            assert client.post("/api/search", json={"picture": a}).status_code == 200
        finally:
            going.set()
            for upload in uploads:
                upload.join(60)


def test_a_full_lane_refuses_at_once_and_goes_on():
    import asyncio

    lane, going, started = Lane("test", 1, 1), threading.Event(), threading.Event()

    def work():
        started.set()
        going.wait(10)
        return 7

    async def run():
        first = asyncio.create_task(lane.run(work))
        await asyncio.to_thread(started.wait, 10)
        second = asyncio.create_task(lane.run(work))
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as refused:
            await lane.run(work)
        assert refused.value.status == 429
        first.cancel()  # a client that goes away gives no place back before its work ends
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal):
            await lane.run(work)
        going.set()
        assert await second == 7
        with pytest.raises(Refusal, match="ending"):
            await first
        assert await lane.run(lambda: 8) == 8

    asyncio.run(run())
    lane.close()


def test_pictures_in_memory_are_bounded(home):
    engine = Engine(home.metric, picture_bytes=100_000)
    kept = [engine.add_picture(home.picture(0, 0).read_bytes())["picture"] for _ in range(30)]
    assert engine.pictures.n_bytes <= 100_000
    assert 1 < len(engine.pictures) < 30
    assert engine.verify(Chosen(kept[-1]), Chosen(kept[-2]))["distance"] == pytest.approx(0, abs=1e-6)
    with pytest.raises(Refusal, match="send it again"):
        engine.crop(Chosen(kept[0]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["a", "b", "picture", "face", "a_face", "k", "labels", "far", "prior", "label", "name", "note", "x"]
)
POSTS = ["/api/relabel", "/api/rename", "/api/verify", "/api/explain", "/api/search", "/api/entries", "/session"]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(POSTS), st.dictionaries(KEYS, JSON, max_size=6) | JSON)
def test_any_json_is_refused_in_words(client, path, content):
    answer = client.post(path, content=json.dumps(content).encode(), headers={"Content-Type": "application/json"})
    if path == "/session":
        assert answer.status_code == 204
    else:
        assert 400 <= answer.status_code < 500
        assert answer.json()["error"]["message"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_picture_is_refused_or_read(client, home, data):
    content = bytearray(home.picture(0, 0).read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    answer = client.post("/api/pictures", content=bytes(content[:cut]), headers={"Content-Type": "image/png"})
    assert answer.status_code in (201, 422)
