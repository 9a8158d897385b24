import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from samekind.evaluation import RocDisplay, Section, SpectrumDisplay, Table, roc_curve, write_report

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Outline(HTMLParser):
    """Elements, ids, references and text of a page; `unclosed` is empty for a well-nested one."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.ids, self.references, self.texts, self.unclosed = [], [], [], [], []
        self.cells, self.labels = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "aria-label" in attrs:
            self.labels.append(attrs["aria-label"])
        values = [value or "" for value in attrs.values()]
        self.references += [match for value in values for match in re.findall(r"(?:url\(|^)#([^)]+)", value)]
        if tag in {"td", "th"}:
            self.cells.append([tag, attrs.get("class"), ""])
        if tag not in VOID:
            self.unclosed.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.unclosed and self.unclosed[-1] in {"td", "th"}:
            self.cells[-1][2] += data


def figures():
    roc = roc_curve([1.0, 3.0, 2.0, 4.0], [True, True, False, False])
    return RocDisplay(roc).plot(name="mine").figure_, SpectrumDisplay([3.0, 2.0, 0.5]).plot().figure_


def full_report(path):
    roc, spectrum = figures()
    sections = [
        Section("Summary", text="First part.\n\nSecond part."),
        Section("Numbers", table=Table(["measure", "value"], [["AUC", 0.123456], ["pairs", 12]])),
        Section("Curve", figure=roc, caption="ROC of the test pairs"),
        Section("Spectrum", figure=spectrum, caption="Eigenvalues"),
    ]
    return write_report(path, "Digits", sections).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    full_report(folder / "report.html")
    return folder


@pytest.fixture(scope="module")
def html(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def test_report_holds_what_it_was_given(html):
    page = Outline(html)
    text = "".join(page.texts)
    for expected in (
        "Digits",
        "Summary",
        "First part.",
        "Second part.",
        "ROC of the test pairs",
        "mine (AUC 0.750)",
    ):
        assert expected in text
    assert page.tags.count("svg") == 2
    assert page.tags.count("p") == 2
    assert page.labels == ["ROC of the test pairs", "Eigenvalues"]


def test_report_is_one_well_formed_page_for_any_screen(html):
    page = Outline(html)
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert '<meta charset="utf-8">' in html
    assert '<meta name="viewport"' in html
    assert "prefers-color-scheme: dark" in html
    assert page.unclosed == []
    assert [page.tags.count(tag) for tag in ("html", "head", "title", "body", "main", "h1")] == [1] * 6


def test_report_needs_nothing_from_outside(html, folder):
    addresses = re.findall(r"https?://[^\"'\s<)]+", html)
    assert set(addresses) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not {"script", "link", "img", "iframe", "object"} & set(Outline(html).tags)
    assert "@import" not in html
    assert [path.name for path in folder.iterdir()] == ["report.html"]


def test_ids_are_unique_and_every_reference_meets_one(html):
    page = Outline(html)
    assert len(page.ids) > 20
    assert len(page.ids) == len(set(page.ids))
    assert len(page.references) > 10
    assert set(page.references) <= set(page.ids)


def test_report_is_the_same_each_time(html, tmp_path):
    assert full_report(tmp_path / "again.html") == html


def test_text_is_escaped_everywhere(tmp_path):
    attack = '<script>alert("&")</script>'
    figure = Figure()
    figure.subplots().set_title(attack)
    section = Section(attack, attack, Table([attack], [[attack]]), figure, attack)
    html = write_report(tmp_path / "report.html", attack, [section]).read_text(encoding="utf-8")
    page = Outline(html)
    assert "script" not in page.tags
    assert page.labels == [attack]
    assert page.unclosed == []
    # Title twice, heading, paragraph, column, cell, caption, and the title within the figure.
    assert "".join(page.texts).count(attack) == 8


def test_words_of_a_figure_that_look_like_ids_are_left_alone(tmp_path):
    figure = Figure()
    figure.subplots().set_title('id="a" url(#b)')
    page = write_report(tmp_path / "r.html", "t", [Section("h", figure=figure, caption="c")])
    assert 'id="a" url(#b)' in "".join(Outline(page.read_text(encoding="utf-8")).texts)


def test_columns_of_numbers_are_set_to_the_right(tmp_path):
    rows = [["a", np.float32(0.5), 1, True], ["b", None, "x", False], ["c", 12345678, 2, True]]
    table = Table(["name", "value", "mixed", "yes"], rows)
    html = write_report(tmp_path / "r.html", "t", [Section("h", table=table)]).read_text(encoding="utf-8")
    cells = Outline(html).cells
    assert [text for _, kind, text in cells if kind == "number"] == ["value", "0.5", "–", "12345678"]
    assert [text for _, kind, text in cells if kind is None] == [
        *("name", "mixed", "yes"),
        *("a", "1", "True"),
        *("b", "x", "False"),
        *("c", "2", "True"),
    ]


def test_fractions_are_shown_to_four_digits():
    assert Table(["x"], [[0.123456], [np.float64(1e-7)], [3]]).texts == [["0.1235"], ["1e-07"], ["3"]]


def test_the_folder_is_made_and_an_older_report_is_replaced(tmp_path):
    path = tmp_path / "new" / "folder" / "report.html"
    write_report(path, "old", [])
    assert write_report(str(path), "newer", []) == path
    assert "newer" in path.read_text(encoding="utf-8")
    assert "old" not in "".join(Outline(path.read_text(encoding="utf-8")).texts)
    assert list(path.parent.iterdir()) == [path]


def test_a_report_that_cannot_be_written_says_so_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "report.html", tmp_path / "folder"):
        with pytest.raises(OSError, match=r"The report cannot be written to .*Give a name in a folder"):
            write_report(path, "t", [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_an_older_report_survives_a_failure(tmp_path, monkeypatch):
    path = write_report(tmp_path / "report.html", "old", [])

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_report(path, "newer", [])
    assert "old" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="'Curve' has no caption"):
        Section("Curve", figure=Figure())
    with pytest.raises(ValueError, match="row of 1 cells in a table of 2 columns"):
        Table(["a", "b"], [["x"]])
