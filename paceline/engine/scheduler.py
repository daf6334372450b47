"""Who rides in the next step. Plain Python: no MLX, no clock, no threads; tested by stepping it.

Rows wait until there is a place and memory for them (engine/admission), in the order of the policy (engine/policy).
Whoever has waited for long comes first, whatever the policy says, and nobody passes it any more. When memory runs
short, chunks shrink, then rows are set back: they wait again, and go on later where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.engine.admission import Admission
from paceline.engine.depth import Depths
from paceline.engine.duty import Duty
from paceline.engine.pace import LEAST, Pace
from paceline.engine.plan import Cause, PrefillChunk, StepPlan
from paceline.engine.policy import Fifo, Holding, Policy
from paceline.engine.row import Row
from paceline.engine.suspects import Suspects
from paceline.types import RequestId

LOOK = 16  # rows that do not fit, looked at before the rest is left for later
AGAIN = 0.1  # seconds between two looks at the rows that wait, when nothing has changed
PROGRESS = 16  # tokens that a row says between two times that it gives way to others
CHECK = 8  # plans between two looks at the memory, when nothing has changed


class Scheduler:
    """`running` rows hold memory and ride; `waiting` rows hold none."""

    def __init__(
        self,
        max_rows: int,
        prefill_budget: int,
        depths: Depths | None = None,
        *,
        policy: Policy | None = None,
        starvation: float = 30.0,
    ) -> None:
        self.max_rows = max_rows
        self.depths = depths or Depths()
        self.pace = Pace(None, prefill_budget)
        self.policy = policy or Fifo()
        self.starvation = starvation  # seconds after which a row that waits comes first
        self.admission: Admission | None = None  # None: memory is no matter
        self.suspects = Suspects()
        self.waiting: list[Row] = []
        self.running: list[Row] = []
        self.crowd: int | None = None  # rows that may run, after memory ran out; None: as many as fit
        self.setbacks: dict[Cause, int] = {"memory": 0, "policy": 0, "fault": 0}
        self._look_at = 0.0  # when to look at the rows that wait, if nothing changes before
        self._changed = True
        self._plans = 0
        self._now = 0.0  # when the last plan was made
        self.duty = Duty()
        self._scored = False  # the last step that could do both scored a prompt, and read none
        self._tight = False  # memory is nearly used up: it is looked at before every step
        self._favoured: Row | None = None  # others were asked to make room for it
        self._chunk = prefill_budget  # as large as the memory allows

    def add(self, row: Row, now: float = 0.0) -> None:
        row.arrived = row.since = now
        self.policy.arrived(row, [*self.running, *self.waiting])
        self.waiting.append(row)
        self._changed = True

    def remove(self, row: Row) -> None:
        """The row has ended, whatever it was doing."""
        if row in self.running:
            self.running.remove(row)
        elif row in self.waiting:
            self.waiting.remove(row)
        if self._favoured is row:
            self._favoured = None
        self.suspects.gone(row)
        self._left()

    def set_back(self, row: Row, cause: Cause) -> None:
        """The row has lost what was computed for it: it waits again, in its old place in the order."""
        self.running.remove(row)
        self.waiting.append(row)
        row.waits, row.since = cause, self._now
        self.setbacks[cause] += 1
        self._left()

    def _left(self) -> None:
        self._changed = True
        if self.admission is not None and not self.running:  # there may be no plan for long: nothing stays reserved
            self.admission.account((), 0)

    def overflow(self, most: int) -> list[Row]:
        """One row of each request that came when `most` were waiting already: of those that never ran, the last ones
        in the order. The choices of a request count as one."""
        if len(self.waiting) <= most:
            return []
        fresh = [row for row in self.policy.order(self.waiting) if not row.company.started]
        requests = list({id(row.company): row for row in reversed(fresh)}.values())[::-1]
        return requests[most:]

    def queue(self, now: float) -> list[Row]:
        """The rows that wait, in the order in which they are looked at. For any thread: it may be a step old."""
        return list(self._ordered(now))

    def step_tokens(self, decoding: bool) -> int:
        """Prompt tokens that the next step may take."""
        return min(self.pace.chunk(decoding), max(self._chunk, min(LEAST, self.pace.most)))

    def plan(self, now: float = 0.0) -> StepPlan:
        """What to do next. Changes the queue, and nothing else."""
        self._now = now
        look = self._changed or (bool(self.waiting) and now >= self._look_at)
        if look or self._tight or self._plans % CHECK == 0 or any(row.remaining for row in self.running):
            relief = self._relief()
            if relief is not None:
                return relief
        if look:
            first = self._fill(now)
            if not first.is_step:
                return first
        self._plans += 1
        decode = tuple(row for row in self.running if row.decodes)
        encode = next((row for row in self.running if row.images_left and not row.held), None)
        rests = bool(decode) and self.duty.rests(now)
        prefill, score = self._prefill(bool(decode), rests), None if rests else self._score()
        if decode and prefill and score is not None:  # a stream waits for one chunk, not for two
            self._scored = not self._scored
            prefill, score = ((), score) if self._scored else (prefill, None)
        return StepPlan(
            _ids(decode),
            self.depths.choose(decode),
            prefill,
            None if encode is None else encode.id,
            None if score is None else score.id,
        )

    # -- memory

    def _relief(self) -> StepPlan | None:
        """Shrink the chunk; where that is not enough, somebody must give way."""
        admission = self.admission
        self._chunk = self.pace.ceiling
        if admission is None or not self.running:
            return None
        left = admission.left(self.running)
        self._chunk = admission.chunk(self.running, self._chunk, left)
        self._tight = admission.reading(self.running, self._chunk) > left
        if self._tight:
            if len(self.running) > 1:
                able = [row for row in self.running if not self._protected(row)]
                return StepPlan(preempt=(self.policy.least(able or self.running).id,))
            if admission.outgrown(self.running[0], self._chunk):
                return StepPlan(exceeds_memory=self.running[0].id)
        self.account()
        return None

    def account(self) -> None:
        """Write down what the rows that run need."""
        if self.admission is not None:
            self.admission.account(self.running, self._chunk)

    def recover(self) -> None:
        """Steps have gone well for a while: allow a little more again."""
        self.pace.relax()
        if self.crowd is not None:
            self.crowd = self.crowd + 1 if self.crowd < self.max_rows else None
            self._changed = True

    # -- who comes in

    def _fill(self, now: float) -> StepPlan:
        """Let rows in, in order, as long as there is room; or say who should make some first."""
        self._changed, self._look_at = False, now + AGAIN
        admitted: list[Row] = []
        missed = 0
        blocked = ""
        ordered = self._ordered(now)
        favoured, self._favoured = self._favoured, None
        if favoured is not None and favoured in ordered:  # others made room for it
            ordered.remove(favoured)
            ordered.insert(0, favoured)
        for row in ordered:
            if blocked or missed > LOOK:
                row.waits = blocked or row.waits
                continue
            obstacle = self._obstacle(row, self.running)
            if obstacle is None:
                self._enter(row, now)
                admitted.append(row)
                continue
            row.waits = obstacle
            missed += 1
            if obstacle == "suspect":
                continue
            if not self.running:  # it has all there is, and that is too little
                self._changed = True
                return StepPlan(exceeds_memory=row.id)
            victims = self._victims(row, obstacle, now)
            if victims:
                self._changed, self._favoured = True, row
                return StepPlan(admit=_ids(admitted), preempt=_ids(victims), cause="policy")
            if obstacle == "rows":
                blocked = "rows"
            elif self._starves(row, now):
                blocked = "order"
        admission = self.admission
        if admission is not None and admitted:
            self._chunk = admission.chunk(self.running, self._chunk, admission.left(self.running))
            self.account()
        return StepPlan(admit=_ids(admitted))

    def _ordered(self, now: float) -> list[Row]:
        """Those that have waited for too long, then the others as the policy says."""
        starved = [row for row in self.waiting if self._starves(row, now)]
        if not starved:
            return self.policy.order(self.waiting)
        others = [row for row in self.waiting if not self._starves(row, now)]
        return [*sorted(starved, key=lambda row: (row.since, row.number)), *self.policy.order(others)]

    def _starves(self, row: Row, now: float) -> bool:
        return now - row.since >= self.starvation

    def _protected(self, row: Row) -> bool:
        """A row that waited for too long has its time, whoever comes."""
        return row.aged and self._now - row.entered < self.starvation

    def _may_give_way(self, row: Row) -> bool:
        """To another that the policy puts first. Whoever did so before must have got on since: two users who displace
        each other's rows all the time would never come to an end."""
        got_on = not row.setbacks or row.length >= len(row.context) - 1 + PROGRESS
        return got_on and not self.suspects.is_suspect(row) and not self._protected(row)

    def _obstacle(self, row: Row, running: Sequence[Row]) -> str | None:
        """What keeps `row` from running beside these."""
        if not self.suspects.may_ride(row):
            return "suspect"
        if len(running) >= self.max_rows:
            return "rows"
        if self.crowd is not None and len(running) >= self.crowd:
            return "memory"
        if self.admission is None or self.admission.fits(running, row):
            return None
        return "memory"

    def _victims(self, row: Row, obstacle: str, now: float) -> tuple[Row, ...]:
        """Who should make room: by the policy, or because they have had their time while `row` has waited too long.
        Nobody, where their going would not be enough."""
        holding: Holding = _one
        if obstacle == "memory" and self.admission is not None:
            holding = self.admission.holding
        may_go = [other for other in self.running if self._may_give_way(other)]
        victims = self._enough(row, may_go, lambda rest: self.policy.victim(row, rest, holding))
        if not victims and self._starves(row, now):
            had = [other for other in self.running if self._had_its_time(other, now)]
            victims = self._enough(row, had, lambda rest: min(rest, key=lambda other: (other.entered, other.number)))
        return victims

    def _enough(self, row: Row, may_go: list[Row], choose: Callable[[list[Row]], Row | None]) -> tuple[Row, ...]:
        """The first ones chosen among these without whom there is room for `row`."""
        victims: list[Row] = []
        rest, able = list(self.running), list(may_go)
        while able:
            victim = choose(able)
            if victim is None:
                break
            victims.append(victim)
            rest.remove(victim)
            able.remove(victim)
            if self._obstacle(row, rest) is None:
                return tuple(victims)
        return ()

    def _had_its_time(self, row: Row, now: float) -> bool:
        """It has run for long enough, and has said something: whoever comes and goes, all get on."""
        said = not row.remaining and row.length >= len(row.context)
        return said and now - row.entered >= self.starvation and not self.suspects.is_suspect(row)

    def _enter(self, row: Row, now: float) -> None:
        self.waiting.remove(row)
        self.running.append(row)
        row.aged = self._starves(row, now)
        row.entered, row.started, row.waits = now, True, ""
        row.company.started = True

    # -- prompts

    def _prefill(self, decoding: bool, rests: bool = False) -> tuple[PrefillChunk, ...]:
        """The foremost prompt, by the policy, gets at least half the budget, so that it always moves; the rest goes to
        the shortest remainders, so that a short prompt does not wait for a long one's many chunks. `rests`: prompts
        that are read sparsely leave this step to the streams."""
        rows = [
            row
            for row in self.running
            if row.remaining and row.decided and not row.images_left and not row.held and row.finished is None
            if row.chosen is None or not rests
        ]
        if not rows:
            return ()
        grants: dict[int, int] = {}
        budget = self.step_tokens(decoding)
        foremost = self.policy.foremost(rows)
        grants[id(foremost)] = min(foremost.remaining, (budget + 1) // 2)
        budget -= grants[id(foremost)]
        for row in sorted(rows, key=lambda row: row.remaining):
            more = min(row.remaining - grants.get(id(row), 0), budget)
            if more > 0:
                grants[id(row)] = grants.get(id(row), 0) + more
                budget -= more
        return tuple(PrefillChunk(row.id, grants[id(row)]) for row in rows if id(row) in grants)

    def _score(self) -> Row | None:
        """One prompt at a time, the first that came: another draft's worth of memory is never needed."""
        able = (row for row in self.running if row.remaining and not row.decided and not row.held)
        return next((row for row in able if row.finished is None), None)


def _ids(rows: Sequence[Row]) -> tuple[RequestId, ...]:
    return tuple(row.id for row in rows)


def _one(row: Row) -> int:
    return 1
