"""Wrong requests to a service: each must be answered with 4xx, and nothing may change."""

import asyncio
import io
import json
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness import Report
from PIL import Image
from served import TOKEN, Client, Service, request

from samekind.gallery import Gallery

N_CLIENTS = 8
GROWTH_MB = 150  # of the resident set, over all requests

Make = Callable[[random.Random], bytes]


def fuzz(report: Report, made: Service, gallery: Path, n: int) -> None:
    """Send n requests of all kinds by turns."""
    before, warm = _state(gallery), made.memory
    counts, wrong = asyncio.run(_all(made, n))
    print(f"{n:,} wrong requests: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(counts.items())))
    for each in wrong[:5]:
        print(each)
    report.note("fuzzed", n)
    report.hold("not_refused", len(wrong), at_most=0)
    report.hold("changed", int(_state(gallery) != before), at_most=0)
    report.hold("fuzz_growth_mb", made.memory - warm, at_most=GROWTH_MB)


def _state(gallery: Path) -> tuple[object, ...]:
    with Gallery.open(gallery, read_only=True) as opened:
        revision = opened._state().revision
        return len(opened), revision, sorted(path.name for path in gallery.iterdir() if "sqlite-" not in path.name)


async def _all(made: Service, n: int) -> tuple[Counter[int], list[str]]:
    counts: Counter[int] = Counter()
    wrong: list[str] = []

    async def some(first: int) -> None:
        client = Client(made.port)
        for number in range(first, n, N_CLIENTS):
            rng = random.Random(number)
            name, make = KINDS[number % len(KINDS)]
            content = make(rng)
            try:
                status, _, _ = await client.send(content)
            except (OSError, asyncio.IncompleteReadError):  # closed before the whole body was sent: a refusal, too
                client.close()
                status = 499
            counts[status] += 1
            if not 400 <= status < 500 and not (name in DECODABLE and status == 201):
                wrong.append(f"{name}: {status}: {content[:200]!r}")
        client.close()

    await asyncio.gather(*(some(first) for first in range(N_CLIENTS)))
    return counts, wrong


def _upload(body: bytes, **headers: str) -> bytes:
    return request("POST", "/api/pictures", body, {"Content-Type": "image/png", **headers})


def _noise(rng: random.Random) -> bytes:
    return _upload(
        rng.choice([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"P5 ", b"GIF89a", b"%PDF"])
        + rng.randbytes(rng.choice([0, 3, 200, 5000]))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _bomb(rng: random.Random) -> bytes:
    """A header that promises far more pixels than are taken, or a text that unpacks to very much."""
    side = rng.choice([6_000, 60_000, 2**31 - 1])
    header = struct.pack(">II", side, side) + bytes([8, rng.choice([0, 2, 6]), 0, 0, 0])
    text = _chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(3_000_000))) if rng.random() < 0.2 else b""
    return _upload(
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + text
        + _chunk(b"IDAT", zlib.compress(bytes(9000)))
        + _chunk(b"IEND", b"")
    )


def _netpbm(rng: random.Random) -> bytes:
    sizes = " ".join(str(rng.choice([0, -1, 1, 250, 10**8, 10**30])) for _ in range(3))
    return _upload(f"P{rng.randint(1, 6)} {sizes}\n".encode() + rng.randbytes(40))


def _jpeg(exif: bytes = b"") -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").save(file, "JPEG", **({"exif": exif} if exif else {}))
    return file.getvalue()


_PLAIN = _jpeg()


def _damaged(rng: random.Random) -> bytes:
    content = bytearray(_PLAIN[: rng.randint(1, len(_PLAIN))])
    for _ in range(rng.randint(1, 20)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return _upload(bytes(content))


def _exif(rng: random.Random) -> bytes:
    """Notes of a camera that lie about lengths, types and orientation."""
    entry = struct.pack(
        "<HHII",
        rng.choice([0x0112, 0x8769, 0x8825]),
        rng.randint(0, 20),
        rng.choice([1, 2**31]),
        rng.randint(0, 2**32 - 1),
    )
    return _upload(_jpeg(b"Exif\0\0II*\0" + struct.pack("<IH", 8, rng.choice([1, 65535])) + entry + rng.randbytes(8)))


def _broken_json(rng: random.Random) -> bytes:
    whole = json.dumps({"a": "x" * 16, "b": "y" * 16, "far": 0.1, "k": 3, "labels": ["z"]}).encode()
    content = bytearray(whole[: rng.randint(0, len(whole) - 1)])
    for _ in range(rng.randint(0, 3)):
        content.insert(rng.randint(0, len(content)), rng.randrange(256))
    path = rng.choice(["/api/verify", "/api/explain", "/api/search", "/api/entries"])
    deep = b"[" * rng.randint(1000, 30_000) if rng.random() < 0.1 else bytes(content)
    return request("POST", path, deep, {"Content-Type": "application/json"})


def _odd_json(rng: random.Random) -> bytes:
    values = [
        None,
        True,
        1e308,
        -1,
        2**70,
        "",
        "../../etc/passwd",
        "a" * 300,
        "\u0000",
        "\ud800",
        [],
        {},
        [[]],
        "%2e%2e",
    ]
    names = ["a", "b", "picture", "face", "a_face", "k", "labels", "far", "prior", "label", "name", "note", "__proto__"]
    content = {name: rng.choice(values) for name in rng.sample(names, rng.randint(0, 6))}
    path = rng.choice(["/api/verify", "/api/explain", "/api/search", "/api/entries"])
    return request("POST", path, json.dumps(content).encode(), {"Content-Type": "application/json"})


def _path_tricks(rng: random.Random) -> bytes:
    trick = rng.choice(
        ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "-1", "9" * 40, "1e3", "١", "a/b", "%ff", "'; --"]
    )
    path = rng.choice(
        [
            "/api/entries/{}",
            "/api/entries/{}/thumbnail",
            "/api/pictures/{}/crops/0",
            "/{}",
            "/page/{}",
            "/api/pictures/x/crops/{}",
        ]
    )
    method = rng.choice(["GET", "GET", "DELETE", "PUT", "PATCH"])
    return request(method, path.format(trick.replace("١", "%D9%A1").replace(" ", "%20")))


def _wrong_token(rng: random.Random) -> bytes:
    given = rng.choice(
        ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer " + "y" * 5000]
    )
    path, method = rng.choice(
        [("/api/info", "GET"), ("/api/entries/1", "DELETE"), ("/session", "POST"), ("/api/pictures", "POST")]
    )
    return request(method, path, b"", {"Authorization": given, "Cookie": "samekind=1; x=" + "é" * rng.randint(0, 20)})


def _foreign(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        host = rng.choice(["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil", "[::", "localhost\tx", "0"])
        return request("GET", "/api/info", b"", {"Host": host})
    origin = rng.choice(
        ["http://evil.example", "null", "https://127.0.0.1:1", "file://", "http://[", "http://127.0.0.1.evil"]
    )
    return request("DELETE", f"/api/entries/{rng.randint(1, 99)}", b"", {"Origin": origin})


def _wrong_type(rng: random.Random) -> bytes:
    kind = rng.choice(
        ["", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "x" * 300]
    )
    return request(
        "POST", rng.choice(["/api/pictures", "/api/verify", "/api/entries"]), b"a=1&b=2", {"Content-Type": kind}
    )


def _too_long(rng: random.Random) -> bytes:
    length = rng.choice(["99999999999", "20000001", str(10**20)])
    return request(
        "POST", "/api/pictures", b"", {"Content-Type": "image/png", "Content-Length": length, "Connection": "close"}
    )


def _bad_http(rng: random.Random) -> bytes:
    return rng.choice(
        [
            b"GET\r\n\r\n",
            b"\0\0\0\0\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /api/info HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
            b"GET /api/info HTTP/1.1\r\n\r\n",
        ]
    )


KINDS: list[tuple[str, Make]] = [
    ("noise", _noise),
    ("bomb", _bomb),
    ("netpbm", _netpbm),
    ("damaged", _damaged),
    ("exif", _exif),
    ("broken json", _broken_json),
    ("odd json", _odd_json),
    ("path tricks", _path_tricks),
    ("wrong token", _wrong_token),
    ("foreign", _foreign),
    ("wrong type", _wrong_type),
    ("too long", _too_long),
    ("bad http", _bad_http),
]
DECODABLE = {"damaged", "exif"}  # what is left may still be a picture
