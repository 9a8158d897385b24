"""A service in a process of its own, and a small HTTP client for the benchmarks of it."""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from encode import metric as encode_metric
from gallerydata import chunks
from PIL import Image
from scipy.ndimage import gaussian_filter

from samekind import Metric
from samekind.gallery import Gallery

TOKEN = "a token for benchmarks"
SIDE = 250


@dataclass(frozen=True)
class Service:
    process: subprocess.Popen[str]
    port: int
    link: str

    @property
    def memory(self) -> float:
        """Resident set, in MB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("The service has ended.")


@contextmanager
def service(gallery: Path, stderr: Path, *options: str) -> Iterator[Service]:
    """`samekind serve` on a free port; its messages go to a file."""
    command = [sys.executable, "-m", "samekind", "serve", str(gallery), "--port", "0", *options]
    with stderr.open("w") as messages:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=messages, text=True, env=os.environ | {"SAMEKIND_TOKEN": TOKEN}
        )
        assert process.stdout is not None
        link = ""
        for line in process.stdout:
            if line.startswith("Open"):
                link = line.split()[1]
            if line.startswith("Token"):
                break
        found = re.search(r":(\d+)/", link)
        if found is None:
            raise SystemExit(f"The service did not start: {stderr.read_text()}")
        try:
            yield Service(process, int(found[1]), link)
        finally:
            process.terminate()
            process.wait(60)


def made_gallery(folder: Path, n: int) -> tuple[Path, Metric]:
    """Of a model of 400 + 400 regions, with n codes that have the scale of its own."""
    metric = encode_metric()
    real = metric.encode([np.asarray(Image.open(io.BytesIO(each))) for each in pictures(4)])
    codes = next(chunks(n))
    codes *= float(np.abs(real).mean() / np.abs(codes).mean())
    with Gallery.create(folder / "gallery", metric.with_threshold(1.0)) as gallery:
        gallery.add(codes, label=[str(row // 20) for row in range(n)])
    return folder / "gallery", metric


def pictures(n: int) -> list[bytes]:
    """JPEG files of 250 x 250 pixels."""
    rng, made = np.random.default_rng(0), []
    for _ in range(n):
        grey = gaussian_filter(rng.random((SIDE, SIDE)), 3)
        file = io.BytesIO()
        Image.fromarray(np.uint8(255 * (grey - grey.min()) / np.ptp(grey))).save(file, "JPEG", quality=90)
        made.append(file.getvalue())
    return made


class Client:
    """One connection, kept open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, content: bytes) -> tuple[int, dict[str, str], bytes]:
        """Bytes of a request -> status, headers and body of the answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        try:
            writer.write(content)
            await writer.drain()
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), headers, body

    async def ask(self, method: str, path: str, content: Any = b"", kind: str = "image/jpeg") -> tuple[int, Any]:
        """The status, and the JSON of the answer; a dict is sent as JSON."""
        if isinstance(content, dict):
            content, kind = json.dumps(content).encode(), "application/json"
        status, _, body = await self.send(request(method, path, content, {"Content-Type": kind}))
        return status, json.loads(body)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


def request(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """As bytes; with the token and a right Host, unless the headers say otherwise."""
    own = {"Host": "127.0.0.1", "Authorization": f"Bearer {TOKEN}", "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in own.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body
