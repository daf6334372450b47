"""Reports as tables."""

from __future__ import annotations

from rich.console import Console

from benchmarks.tables import prefix_table, trace_table
from tests.benchmarks.test_prefix import LINE
from tests.benchmarks.test_trace import traces


def test_the_table_of_several_servers_has_ratios_to_the_first() -> None:
    console = Console(width=220, record=True)
    console.print(trace_table("a title", traces(2.0, 5.0)))
    text = console.export_text()
    for words in ("a title", "server 1", "500.0 ms", "1.25 s", "600", "1.250", "2.50", "total / server 0"):
        assert words in text


def test_the_table_has_medians_and_the_worst_turns() -> None:
    console = Console(width=200, record=True)
    console.print(prefix_table("a title", [LINE]))
    text = console.export_text()
    for words in ("a title", "1,024", "10.00 s", "8.0", "6.0", "2.0", "500.0 ms", "5.26%", "12.50%", "5.0 MB"):
        assert words in text
