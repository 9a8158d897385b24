"""What verbs print, whatever the terminal."""

import pytest

from samekind.cli.output import say_table
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
