"""Which entries a store has, and which of them it evicts first. No I/O and no lock: `disk` has both."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True)
class Known:
    """What the store remembers of an entry; the owner remembers its key."""

    parent: str | None
    nbytes: int
    last_used: float


class Index(dict[str, Known]):
    """The stored entries by id. Every parent is in the index as well."""

    def with_descendants(self, ids: list[str]) -> list[str]:
        """Those of `ids` that are stored, then all entries that build on them."""
        children: dict[str | None, list[str]] = {}
        for id, known in self.items():
            children.setdefault(known.parent, []).append(id)
        found = [id for id in ids if id in self]
        seen = set(found)
        for id in found:  # grows while it is walked
            new = [child for child in children.get(id, []) if child not in seen]
            seen.update(new)
            found += new
        return found

    def victims(self, excess: int, parent: str | None) -> list[str] | None:
        """The entries to evict to free `excess` bytes, least recently used first; None: there are not enough.

        Only entries that nothing builds on, and never `parent`: so all that `parent` builds on is safe as well.
        """
        if excess <= 0:
            return []
        children = Counter(known.parent for known in self.values())
        leaves = [(known.last_used, id) for id, known in self.items() if not children[id] and id != parent]
        heapq.heapify(leaves)
        victims: list[str] = []
        while excess > 0:
            if not leaves:
                return None
            _, id = heapq.heappop(leaves)
            victims.append(id)
            known = self[id]
            excess -= known.nbytes
            above = known.parent
            children[above] -= 1
            if above is not None and not children[above] and above != parent:
                heapq.heappush(leaves, (self[above].last_used, above))
        return victims
