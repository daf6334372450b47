"""One account of the device's memory: who holds how many bytes, and what is left. No MLX.

Whoever holds memory says so under its own name, and whoever is about to need some says so before. Those that can give
memory back (prefixes) ask `room`, so that what live rows need is taken from them first.
"""

from __future__ import annotations

REQUEST_PARTS = ("request media", "request work")  # what requests hold beside their sequences (host_memory)


class Budget:
    """`limit` is all that may be used; `headroom` of it stays free for what nobody counts (MLX's pool, transients).

    For any thread, without a lock: one dictionary, written and copied in single operations. An array that is freed may
    give memory back from anywhere, also from where a lock would already be held.
    """

    def __init__(self, limit: int, headroom: int = 0) -> None:
        self.limit = limit
        self.headroom = headroom
        self._held: dict[str, int] = {}

    @property
    def usable(self) -> int:
        return max(self.limit - self.headroom, 0)

    def hold(self, name: str, nbytes: int) -> None:
        """`name` holds this much now, or is about to."""
        self._held[name] = nbytes

    def room(self, name: str) -> int:
        """What `name` may hold beside what the others hold; 0 when they leave nothing."""
        return self.room_without(name)

    def room_without(self, *names: str) -> int:
        """What is left if these gave back all that they hold."""
        return max(self.usable - sum(held for who, held in self.held().items() if who not in names), 0)

    def held(self) -> dict[str, int]:
        return self._held.copy()

    def holding(self, *names: str) -> int:
        """What these hold together."""
        return sum(self._held.get(name, 0) for name in names)
