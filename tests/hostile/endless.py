"""`paceline` with weights on a disk that never delivers: `python -m tests.hostile.endless serve ...` loads for ever."""

from __future__ import annotations

import threading

from paceline import cli, progress


class Stuck(progress.LoadProgress):
    """Called by the loader while it reads weights."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        print("stuck", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    progress.LoadProgress = Stuck  # type: ignore[misc]
    cli.main()
