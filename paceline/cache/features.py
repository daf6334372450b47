"""The vision cache: features of images by their content, bounded by bytes, least recently used evicted first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from paceline.stats import VisionCacheStats


class Features:
    """For the engine's thread; any thread may read the numbers."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = self.hits = self.misses = 0
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def get(self, key: str) -> Any:
        """The features of the image with this content hash, or None."""
        features = self._kept.get(key)
        if features is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return features

    def put(self, key: str, features: Any) -> None:
        if features.nbytes > self.limit or key in self._kept:
            return
        self._kept[key] = features
        self.nbytes += features.nbytes
        self.shrink(self.limit)

    def shrink(self, limit: int) -> None:
        """Evict down to this many bytes."""
        while self.nbytes > limit and self._kept:
            _, oldest = self._kept.popitem(last=False)
            self.nbytes -= oldest.nbytes

    def clear(self) -> None:
        self._kept.clear()
        self.nbytes = 0

    def stats(self) -> VisionCacheStats:
        return VisionCacheStats(self.hits, self.misses, self.nbytes, self.limit)
