"""Runs batches below the interactive traffic, one after another, and carries on after a restart.

A batch's requests have the lowest priority, and under the fair policy all batches together are one user. Besides, no
request of a batch starts while any other waits, and beside other requests only a few run: so a batch takes what the
others leave, under every policy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

from paceline.errors import PacelineError
from paceline.server.common.fields import Priority
from paceline.server.common.unknown_fields import note_unknown
from paceline.server.http.response import encode_long
from paceline.server.openai.batches.internal import InternalCalls
from paceline.server.openai.batches.job import (
    LINE_FIELDS,
    BadLine,
    Job,
    Line,
    finished,
    numbered_lines,
    problems_of,
    read_line,
    result_line,
)
from paceline.server.openai.batches.store import DAY, FileStore, load_described, new_id
from paceline.server.state import AppState

LOWEST = 1000  # the last that a priority can say
PRIORITY: TypeAdapter[int | None] = TypeAdapter(Priority | None)
POLL_SECONDS = 0.1  # between two looks at the engine
RETRY_SECONDS = 1.0  # after the engine refused a request for now
CLEAN_SECONDS = 3600.0
FOR_NOW = (429, 503)
KINDS = ("output", "error")  # of a batch's files
UNSTARTED = {
    "cancelled": {"code": "batch_cancelled", "message": "The batch was cancelled before this request was answered."},
    "expired": {"code": "batch_expired", "message": "The batch expired before this request was answered."},
}

logger = logging.getLogger("paceline.server")


class Batches:
    """The jobs in a folder. Used on the event loop only; what touches the disk runs in threads."""

    def __init__(self, state: AppState, folder: Path, files: FileStore) -> None:
        self.state = state
        self.files = files
        self.folder = folder
        self.jobs: dict[str, Job] = {}
        self._new = asyncio.Event()
        self._running: Job | None = None
        self._saving = asyncio.Lock()  # the state that is saved last is the latest
        self._stopped: dict[str, asyncio.Event] = {}  # by job: it was cancelled
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        loaded = load_described(folder, "batch_*.json", Job)
        for job in sorted(loaded.values(), key=lambda job: (job.created_at, job.id)):
            self.jobs[job.id] = job
            with suppress(OSError):
                self._count(job)
        files.remove_all(files.expired(self._used()))

    # -- what clients do

    async def add(self, job: Job) -> None:
        self.jobs[job.id] = job  # it counts already
        try:
            await self._save(job)
        except BaseException:
            self.jobs.pop(job.id, None)
            raise
        self._new.set()

    async def cancel(self, job: Job) -> None:
        if job.ended or job.status == "cancelling":
            return
        job.become("cancelling")
        if job is not self._running and job.in_progress_at is None:  # nothing of it was answered
            job.become("cancelled")
        else:
            self._stop_event(job).set()
        await self._save(job)

    def uses(self, file_id: str) -> bool:
        return file_id in self._used()

    # -- running

    async def run(self, calls: InternalCalls) -> None:
        """Until cancelled. What is unfinished then goes on at the next start."""
        cleaning = asyncio.create_task(self._clean_now_and_then())
        try:
            while True:
                while self.state.gate.closed or not self.state.backend.ready:
                    await asyncio.sleep(POLL_SECONDS)
                waiting = (job for job in self.jobs.values() if not job.ended)  # a cancelled one goes first
                job = min(waiting, key=lambda job: job.status != "cancelling", default=None)
                if job is None:
                    self._new.clear()
                    await self._new.wait()
                    continue
                self._running = job
                try:
                    await self._run(job, calls)
                except Exception as error:
                    logger.exception("the batch %s failed", job.id)
                    await self._fail(job, error)
                finally:
                    self._running = None
                    self._stopped.pop(job.id, None)
        finally:
            cleaning.cancel()
            await asyncio.gather(cleaning, return_exceptions=True)

    async def _fail(self, job: Job, error: Exception) -> None:
        """What was answered is the client's all the same. Where even that cannot be written, it is tried again at the
        next start."""
        message = "The server's log says why."
        if isinstance(error, PacelineError | BadLine):
            message = str(error)
        elif isinstance(error, OSError):  # its text would tell the client a path
            message = error.strerror or message
        job.problems.append({"code": "server_error", "message": message, "line": None, "param": None})
        try:
            await asyncio.to_thread(self._count, job)
            await self._name_files(job)
            await self._hand_over(job)
        except Exception:
            logger.exception("the batch %s cannot be saved", job.id)
            for kind in KINDS:
                if self._part(job, kind).exists():  # it has not become a file of the client's
                    setattr(job, f"{kind}_file_id", None)
            job.become("failed")

    async def _run(self, job: Job, calls: InternalCalls) -> None:
        source = self.files.path(job.input_file_id)
        if job.status == "validating":
            job.total, job.problems = await asyncio.to_thread(problems_of, source, job.endpoint)
            if job.problems:
                job.become("failed")
                await self._save(job)
                return
            if job.status == "validating":  # not cancelled meanwhile
                job.become("in_progress")
            await self._save(job)
        if job.in_progress_at is None:
            job.become("cancelled")
            await self._save(job)
            return
        if job.output_file_id or job.error_file_id or job.problems:  # it had come to its end before a restart
            await self._hand_over(job)
            return
        done = await asyncio.to_thread(self._count, job)
        with self._part(job, "output").open("ab") as output, self._part(job, "error").open("ab") as errors:
            await self._answer(job, calls, source, done, output, errors)
        await self._finish(job)

    async def _answer(
        self, job: Job, calls: InternalCalls, source: Path, done: set[str], output: IO[bytes], errors: IO[bytes]
    ) -> None:
        lines = numbered_lines(source)
        stopped = asyncio.create_task(self._ended(job))
        running: set[asyncio.Task[None]] = set()

        async def answer(line: Line) -> None:
            result, good = await self._result(job, calls, line)
            written = await asyncio.to_thread(_written, result)
            _append(output if good else errors, written)  # here: whoever cancels this finds it done, or not begun
            job.completed += good
            job.failed += not good
            done.add(line.custom_id)

        try:
            while not stopped.done():
                line = await asyncio.to_thread(_next_line, lines, job.endpoint, done)
                if line is None:
                    break
                while not stopped.done() and not await self._has_room(len(running)):
                    await asyncio.wait({stopped, *running}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    running = _unfinished(running)
                if not stopped.done():
                    running.add(asyncio.create_task(answer(line)))
                await asyncio.sleep(0)
            while running and not stopped.done():
                await asyncio.wait({stopped, *running}, return_when=asyncio.FIRST_COMPLETED)
                running = _unfinished(running)
        finally:
            for task in (stopped, *running):
                task.cancel()
            await asyncio.gather(stopped, *running, return_exceptions=True)

    async def _result(self, job: Job, calls: InternalCalls, line: Line) -> tuple[dict[str, Any], bool]:
        def check() -> None:
            note_unknown(self.state, "a line of a batch", line.fields, LINE_FIELDS)

        while True:
            reply = await calls.post(job.endpoint, _lowered(line.body), job.owner, check)
            if reply.status not in FOR_NOW:
                break
            await asyncio.sleep(RETRY_SECONDS)
            while not await self._has_room(0):
                await asyncio.sleep(POLL_SECONDS)
        response = {"status_code": reply.status, "request_id": reply.request_id, "body": reply.body}
        return result_line(line, response=response), reply.status == 200

    async def _has_room(self, mine: int) -> bool:
        """Whether one more request of a batch may start beside `mine` of them."""
        backend = self.state.backend
        if self.state.gate.closed or not backend.ready or backend.failure is not None:
            return False
        stats = await asyncio.to_thread(backend.stats)
        if stats.num_requests_waiting:
            return False
        alone = stats.num_requests_running <= mine
        share = 2 if alone else 8
        return mine < max(1, self.state.settings.max_num_seqs // share)

    async def _ended(self, job: Job) -> None:
        """Returns when the job is cancelled, or has expired."""
        seconds = max(job.expires_at - self.files.clock(), 0)
        if job.status == "cancelling":
            return
        try:
            async with asyncio.timeout(seconds):
                await self._stop_event(job).wait()
        except TimeoutError:
            return

    async def _finish(self, job: Job) -> None:
        """What was not answered is an error."""
        cancelled, expired = job.status == "cancelling", self.files.clock() >= job.expires_at
        answered = job.completed + job.failed
        if answered < job.total and (cancelled or expired):
            reason = "cancelled" if cancelled else "expired"
            await asyncio.to_thread(self._write_unanswered, job, reason)
        if not cancelled:
            job.become("finalizing")
        await self._name_files(job)
        await self._hand_over(job)

    def _count(self, job: Job) -> set[str]:
        """What has a result, of the requests whose results are not the client's yet."""
        done: set[str] = set()
        for kind, count in zip(KINDS, ("completed", "failed"), strict=True):
            part = self._part(job, kind)
            if part.exists():
                found = finished(part)
                setattr(job, count, sum(found.values()))
                done.update(found)
        return done

    async def _name_files(self, job: Job) -> None:
        """From here on a restart only hands over."""
        for kind in KINDS:
            part, name = self._part(job, kind), f"{kind}_file_id"
            if not part.exists():
                continue
            if part.stat().st_size:
                setattr(job, name, getattr(job, name) or new_id())
            else:
                part.unlink()
        await self._save(job)

    async def _hand_over(self, job: Job) -> None:
        """Both files become the client's, those that are not yet."""
        for kind in KINDS:
            part, id = self._part(job, kind), getattr(job, f"{kind}_file_id")
            if id is not None and part.exists():
                name = f"{job.id}_{kind}.jsonl"
                await asyncio.to_thread(self.files.adopt, part, job.owner, name, "batch_output", id=id)
        unanswered = job.completed + job.failed < job.total
        if job.problems:
            job.become("failed")
        elif job.status == "cancelling":
            job.become("cancelled")
        else:
            job.become("expired" if unanswered else "completed")
        await self._save(job)

    def _write_unanswered(self, job: Job, reason: str) -> None:
        done = {*finished(self._part(job, "output")), *finished(self._part(job, "error"))}
        lines = numbered_lines(self.files.path(job.input_file_id))
        with self._part(job, "error").open("ab") as errors:
            while (line := _next_line(lines, job.endpoint, done)) is not None:
                _append(errors, _written(result_line(line, error=UNSTARTED[reason])))

    # -- small things

    def _used(self) -> set[str]:
        """The inputs of batches that have not ended."""
        return {job.input_file_id for job in self.jobs.values() if not job.ended}

    def _stop_event(self, job: Job) -> asyncio.Event:
        return self._stopped.setdefault(job.id, asyncio.Event())

    def _part(self, job: Job, kind: str) -> Path:
        return self.folder / f"{job.id}.{kind}"

    async def _save(self, job: Job) -> None:
        async with self._saving:
            await asyncio.to_thread(job.save, self.folder)

    async def _clean_now_and_then(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.files.remove_all, self.files.expired(self._used()))
                oldest = self.files.clock() - self.files.days * DAY
                for job in [job for job in self.jobs.values() if job.ended and job.created_at < oldest]:
                    del self.jobs[job.id]
                    for left in (self.folder / f"{job.id}.json", *(self._part(job, kind) for kind in KINDS)):
                        left.unlink(missing_ok=True)
            except OSError:
                logger.exception("old files of batches cannot be removed")
            await asyncio.sleep(CLEAN_SECONDS)


def _unfinished(running: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Those that still run. Raises what one of the others raised."""
    for task in running:
        if task.done():
            task.result()
    return {task for task in running if not task.done()}


def _next_line(lines: Iterator[tuple[int, bytes]], endpoint: str, done: set[str]) -> Line | None:
    """The next request without a result. The input was checked before."""
    for _, text in lines:
        line = read_line(text, endpoint)
        if line.custom_id not in done:
            return line
    return None


def _lowered(body: dict[str, Any]) -> dict[str, Any]:
    """With the lowest priority; a wrong one is left for the endpoint to refuse."""
    try:
        PRIORITY.validate_python(body.get("priority"), strict=True)
    except ValidationError:
        return body
    return {**body, "priority": LOWEST}


def _written(result: dict[str, Any]) -> bytes:
    return encode_long(result) + b"\n"


def _append(file: IO[bytes], written: bytes) -> None:
    file.write(written)
    file.flush()
