"""How long requests may wait and take, and how many may wait. No MLX; the clock is the caller's."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.engine.row import Row
from paceline.errors import DeadlineExceeded, QueueTimeout, Refused


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that requests may take; None: as long as it takes. `queue`: how many may wait."""

    queue: int | None = None
    queue_timeout: float | None = None
    first_token: float | None = None
    request: float | None = None

    def overdue(self, row: Row, now: float, retry_after: int) -> Refused | None:
        """Why the row's time is over, if it is."""
        age = now - row.arrived
        if self.request is not None and age > self.request:
            return DeadlineExceeded(f"The request took longer than the {self.request:g} s it may take.", retry_after)
        if self.first_token is not None and age > self.first_token and not row.generated and not row.greeted:
            return DeadlineExceeded(f"No token came within {self.first_token:g} s.", retry_after)
        ran = row.company.started
        if self.queue_timeout is not None and age > self.queue_timeout and not ran:
            text = f"The request waited {self.queue_timeout:g} s and did not get its turn."
            return QueueTimeout(text, retry_after)
        return None
