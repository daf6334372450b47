from __future__ import annotations

import io

from rich.console import Console

from paceline.progress import LoadProgress


def drawn(*, terminal: bool) -> str:
    file = io.StringIO()
    progress = LoadProgress(Console(file=file, force_terminal=terminal, width=100))
    for done in (0, 500, 1000):
        progress("Loading weights", done, 1000)
    return file.getvalue()


def test_a_terminal_is_shown_how_far_it_is() -> None:
    assert "Loading weights" in drawn(terminal=True)


def test_where_nobody_watches_nothing_is_drawn() -> None:
    assert drawn(terminal=False) == ""
