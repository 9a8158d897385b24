"""Takes the screenshots of docs/service.md: `python docs/figures/service.py [FOLDER]`, FOLDER that of `samekind demo`.

Needs chromium and playwright. The demo is run first where it is missing.
"""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
WIDTH = 860


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "samekind-demo")
    command = [sys.executable, "-m", "samekind", "serve", "--demo", "--out", str(folder), "--port", "0"]
    environment = os.environ | {"SAMEKIND_TOKEN": "only for screenshots"}
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert service.stdout is not None
    link = next(line for line in service.stdout if line.startswith("Open  ")).split()[1]
    try:
        take(link, folder / "pictures-uneven")
    finally:
        service.terminate()
        service.wait(60)


def take(link: str, pictures: Path) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 700})
        page.set_default_timeout(120_000)
        page.goto(link)
        page.locator("#work").wait_for()
        for slot, name in (("a", "7/100.png"), ("b", "7/101.png")):
            page.set_input_files(f"[data-slot={slot}] .file", pictures / name)
        page.locator("#why-title").wait_for()
        page.wait_for_load_state("networkidle")
        save(page.screenshot(full_page=True), "service-compare.png")
        page.locator("#tab-find").click()
        page.set_input_files("[data-slot=query] .file", pictures / "8/100.png")
        page.locator("#hits h2").wait_for()
        page.wait_for_load_state("networkidle")
        save(page.screenshot(full_page=True), "service-find.png")
        browser.close()


def save(picture: bytes, name: str) -> None:
    """In 128 colours, which is enough, and small."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(128).save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
