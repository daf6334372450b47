"""One account of the device's memory: which part holds how many bytes, and how many are left. No MLX.

Each part reports the bytes that it holds, or is about to hold, under its own name. The parts that can be evicted
(prefixes) ask `room`, so that they shrink before running requests lack memory.
"""

from __future__ import annotations

REQUEST_PARTS = ("request media", "request work")  # what requests hold beside their sequences (host_memory)


class Budget:
    """`limit` is all that may be used; `headroom` of it stays free for what is not counted (MLX's pool, transients).

    For any thread, without a lock: one dictionary, written and copied in single operations. An array can be freed
    anywhere, also where a lock would already be held.
    """

    def __init__(self, limit: int, headroom: int = 0) -> None:
        self.limit = limit
        self.headroom = headroom
        self._held: dict[str, int] = {}

    @property
    def usable(self) -> int:
        return max(self.limit - self.headroom, 0)

    def hold(self, name: str, nbytes: int) -> None:
        """`name` holds this much now, or will soon."""
        self._held[name] = nbytes

    def room(self, *names: str) -> int:
        """What these may hold together beside what the others hold; 0 when they leave nothing."""
        return max(self.usable - sum(held for name, held in self.held().items() if name not in names), 0)

    def held(self) -> dict[str, int]:
        return self._held.copy()

    def holding(self, *names: str) -> int:
        """Bytes that these hold together."""
        return sum(self._held.get(name, 0) for name in names)
