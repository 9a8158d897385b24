"""The service: latency alone and under 200 clients, memory, the page in a browser, and 100,000 wrong requests.

A model of 400 + 400 regions and a gallery of 100,000 codes. "verify" sends two JPEG files of 250 x 250 pixels and
compares them (three requests), "search" sends one and searches (two); clients and service share the machine. A client
that gets 429 asks again after a second. Memory is the service's resident set, after its memory for pictures has
been filled. The page is opened by chromium; axe-core (from npm) checks its accessibility.
"""

import asyncio
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, parser
from served import Client, Service, made_gallery, pictures, service
from servefuzz import fuzz

VERIFY_MS, PAINT_MS, PAGE_KB = 60, 1000, 200
GROWTH = 1.05  # of the resident set, after warm-up
CROP_BYTES = 4 * 110 * 150  # of a picture that is kept, the most of it
AXE = "axe-core@4.10.3"


@dataclass
class Load:
    """What clients met."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"verify": [], "search": []})
    n_busy: int = 0
    errors: list[str] = field(default_factory=list)

    async def until_right(self, client: Client, *question: Any) -> tuple[Any, float]:
        """Ask again while the service is busy; the answer, and the seconds of the last time."""
        while True:
            start = time.perf_counter()
            status, answer = await client.ask(*question)
            if status in (200, 201):
                return answer, time.perf_counter() - start
            if status != 429:
                self.errors.append(f"{question[1]}: {status} {answer}")
                raise ConnectionError
            self.n_busy += 1
            await asyncio.sleep(1)

    async def verify(self, client: Client, a: bytes, b: bytes) -> None:
        first, upload = await self.until_right(client, "POST", "/api/pictures", a)
        second, again = await self.until_right(client, "POST", "/api/pictures", b)
        pair = {"a": first["picture"], "b": second["picture"]}
        _, compared = await self.until_right(client, "POST", "/api/verify", pair)
        self.seconds["verify"].append(upload + again + compared)

    async def search(self, client: Client, a: bytes) -> None:
        sent, upload = await self.until_right(client, "POST", "/api/pictures", a)
        _, found = await self.until_right(client, "POST", "/api/search", {"picture": sent["picture"], "k": 10})
        self.seconds["search"].append(upload + found)


async def alone(made: Service, n: int) -> Load:
    load, client, (a, b) = Load(), Client(made.port), pictures(2)
    for _ in range(n):
        await load.verify(client, a, b)
        await load.search(client, a)
    client.close()
    return load


async def fill(made: Service, memory: str) -> None:
    """Send pictures until the service's memory for them is full, so that it grows no more by them."""
    load, client, (a,) = Load(), Client(made.port), pictures(1)
    for _ in range(int(1.05e6 * int(memory.removesuffix("MB")) / CROP_BYTES)):
        await load.until_right(client, "POST", "/api/pictures", a)
    client.close()


async def together(made: Service, n_clients: int, seconds: float, memory: list[float]) -> Load:
    load, sent, end = Load(), pictures(8), time.monotonic() + seconds

    async def one(number: int) -> None:
        client, turn = Client(made.port), number
        while time.monotonic() < end:
            turn += 1
            try:
                if turn % 2:
                    await load.verify(client, sent[turn % 8], sent[(turn + 1) % 8])
                else:
                    await load.search(client, sent[turn % 8])
            except ConnectionError:
                load.errors.append("connection lost") if not load.errors else None
                return
        client.close()

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(made.memory)
            await asyncio.sleep(0.5)

    await asyncio.gather(watch(), *(one(number) for number in range(n_clients)))
    return load


def say(title: str, load: Load) -> None:
    for kind, seconds in load.seconds.items():
        if seconds:
            p50, p95, p99 = 1000 * np.quantile(seconds, [0.5, 0.95, 0.99])
            print(f"{title:<12} {kind:<7} n {len(seconds):6,}  p50 {p50:7.1f}  p95 {p95:7.1f}  p99 {p99:7.1f} ms")


def axe_source(folder: Path) -> str | None:
    """axe-core's script from npm; None where there is no npm or no network."""
    if shutil.which("npm") is None:
        return None
    made = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        return None
    with tarfile.open(folder / made.stdout.split()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def measure_page(report: Report, made: Service, folder: Path) -> None:
    """First paint, size, hosts and accessibility, in light and dark and at the width of a phone."""
    from playwright.sync_api import sync_playwright

    chromium, axe = shutil.which("chromium"), axe_source(folder)
    if chromium is None:
        print("there is no chromium: the page is not measured")
        return
    first, second = (folder / f"{name}.jpg" for name in "ab")
    for path, content in zip((first, second), pictures(2), strict=True):
        path.write_bytes(content)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(120_000)
        seen: list[tuple[str, Any]] = []
        page.on("response", lambda answer: seen.append((answer.url, answer)))
        page.goto(made.link)
        page.locator("#work").wait_for()
        seen.clear()
        page.reload()  # the first one also makes the cookie
        page.locator("#work").wait_for()
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        report.hold("first_paint_ms", paint, at_most=PAINT_MS)
        report.hold("page_kb", sum(len(answer.body()) for _, answer in seen) / 1000, at_most=PAGE_KB)
        others = {url.split("/")[2] for url, _ in seen} - {f"127.0.0.1:{made.port}"}
        report.hold("other_hosts", len(others), at_most=0)
        if axe is None:
            print("there is no npm, or it cannot get axe-core: accessibility is not checked")
        else:
            report.hold("axe_findings", sum(len(each) for each in _axe_findings(page, axe, first, second)), at_most=0)
        browser.close()


def _axe_findings(page: Any, axe: str, first: Path, second: Path) -> list[list[str]]:
    """Of the page as it opens, with an answer, and with hits; light, dark and narrow."""
    found = []
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 360)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        page.locator("#work").wait_for()
        page.evaluate(axe)
        found.append(_checked(page, f"{scheme} {width} empty"))
        page.set_input_files("[data-slot=a] .file", first)
        page.set_input_files("[data-slot=b] .file", second)
        page.locator("#why-title").wait_for()
        found.append(_checked(page, f"{scheme} {width} compared"))
        page.locator("#tab-find").click()
        page.set_input_files("[data-slot=query] .file", first)
        page.locator("#hits h2").wait_for()
        found.append(_checked(page, f"{scheme} {width} found"))
        page.locator("#tab-mistakes").click()
        found.append(_checked(page, f"{scheme} {width} mistakes"))
    return found


def _checked(page: Any, title: str) -> list[str]:
    violations = page.evaluate("axe.run(document).then((made) => made.violations)")
    for each in violations:
        print(f"axe, {title}: {each['id']} ({each['impact']}): {each['help']}: {each['nodes'][0]['html'][:120]}")
    return [each["id"] for each in violations]


def main() -> None:
    made_parser = parser(__doc__)
    made_parser.add_argument("--only", choices=["load", "page", "fuzz"], help="one part of it")
    made_parser.add_argument("--fuzzed", type=int, help="how many wrong requests")
    given = made_parser.parse_args()
    report = Report("serve")
    # Memory for twice the two pictures that each client has under way: the others send theirs meanwhile.
    n_codes, seconds, n_clients, memory = (20_000, 10, 50, "16MB") if given.quick else (100_000, 60, 200, "64MB")
    n_fuzzed = given.fuzzed or (1_500 if given.quick else 100_000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        gallery, _ = made_gallery(folder, n_codes)
        messages = folder / "messages.txt"
        with service(gallery, messages, "--memory", memory) as made:
            if given.only in (None, "load"):
                asyncio.run(fill(made, memory))
                measure_load(report, made, n_clients, seconds, 20 if given.quick else 100)
            if given.only in (None, "page"):
                measure_page(report, made, folder)
            if given.only in (None, "fuzz"):
                fuzz(report, made, gallery, n_fuzzed)
        said = messages.read_text()
        report.hold("tracebacks", said.count("Traceback"), at_most=0)
        report.hold("exit_status", made.process.returncode, at_most=0)
    report.end()


def measure_load(report: Report, made: Service, n_clients: int, seconds: float, n_alone: int) -> None:
    asyncio.run(alone(made, 3))
    quiet = asyncio.run(alone(made, n_alone))
    say("alone", quiet)
    report.hold("verify_ms", 1000 * float(np.median(quiet.seconds["verify"])), at_most=VERIFY_MS)
    memory: list[float] = []
    load = asyncio.run(together(made, n_clients, seconds, memory))
    say(f"{n_clients} clients", load)
    warm = memory[len(memory) // 3]
    print(
        f"answered 429: {load.n_busy:,} times; resident set {warm:.0f} MB after a third, at most {max(memory):.0f} MB"
    )
    for kind, times in load.seconds.items():
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            report.note(f"{kind}_{name}_ms", 1000 * float(np.quantile(times, share)) if times else float("nan"))
    report.hold("errors", len(load.errors), at_most=0)
    for error in load.errors[:3]:
        print(error)
    report.hold("memory_growth", max(memory[len(memory) // 3 :]) / warm, at_most=GROWTH)


if __name__ == "__main__":
    main()
