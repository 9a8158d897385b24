"""What verbs print, whatever the terminal."""

import pytest

from samekind.cli.output import say_rows, say_table
from samekind.evaluation.report import Table

NAME = "samekind: cov + slbp + cov@0.5-75x100 + slbp@0.5-75x100"
COLUMNS = ("", "threshold from", "accuracy (%)", "standard deviation (%)", "standard error", "AUC (%)", "EER (%)")
ROWS = [(NAME, "training pairs", 91.25, 1.264, 0.4, 98.154, 6.43), ("short", "view 1", 93.7, 1.3, 0.5, 97.1, 7.2)]


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_a_table_is_never_cut(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    table = Table(COLUMNS, ROWS)
    say_table("Accuracy", table)
    printed = capsys.readouterr().out
    assert "…" not in printed
    words = {word for row in [table.columns, *table.texts] for text in row for word in text.split()}
    assert {word for word in words if word not in printed} == set()


def test_long_names_go_on_in_the_next_line(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    name = "a/" + "b" * 200 + ".png"
    say_rows(["", "id", "name"], [["same", "7", name], ["", "8", "[bold]c.png"]], left=("name",))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    cells = [line.split("│")[3].strip() for line in lines if line.count("│") == 4]
    assert "".join(cells) == name + "[bold]c.png"
