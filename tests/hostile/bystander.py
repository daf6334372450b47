"""A client that does no harm, and measures how long it waits: `python bystander.py PID MAX_BYTES`.

It is a process of its own, without the package: an attack that keeps the test's interpreter busy must not look like
a server that is. It reads commands from its standard input, one a line, and answers each with a line of JSON:

    watch PORT   open a stream, and wait for its first chunk
    figures      what was seen since the last answer; a wait that has not ended yet counts as long as it is
    rest         close the stream

While it watches it reads the stream, polls /health, and asks one small question after the other. All the time it
adds up the resident memory of the server and its children, and guards the machine: a server that holds more than
MAX_BYTES is killed, and so is one whose test has ended without a word.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

POLL_SECONDS = 0.02
ASK_SECONDS = 0.1
WEIGH_SECONDS = 0.05
TIMEOUT = 120.0
PROMPT = "Tell me about riders who share the wind."
STREAM = {
    "messages": [{"role": "user", "content": PROMPT}],
    "stream": True,
    "temperature": 0,
    "ignore_eos": True,
    "cache": False,  # what it said leaves nothing behind that an attack could be blamed for
}


QUESTION = {"max_tokens": 1, "temperature": 0, "cache": False}


class Wait:
    """The longest time between two events, or since the last one, by two clocks: everybody's, and the server's own
    processor time. A machine that others keep busy does not lengthen the second; a server that sleeps has no second.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._since: tuple[float, float] | None = None
        self._longest = self._longest_stall = 0.0
        self._events = 0

    def begin(self) -> None:
        now = self._now()
        with self._lock:
            self._since = now

    def happened(self, again: bool) -> None:
        """The awaited event; `again`: the next one is awaited from now on."""
        now = self._now()
        with self._lock:
            self._count(now)
            self._since = now if again else None
            self._events += 1

    def take(self) -> tuple[float, float, int]:
        """Seconds that the server was busy with something else, seconds by the clock, and the number of events."""
        now = self._now()
        with self._lock:
            self._count(now)
            taken = self._longest, self._longest_stall, self._events
            self._longest = self._longest_stall = 0.0
            self._events = 0
        return taken

    def _count(self, now: tuple[float, float]) -> None:
        if self._since is not None:
            elapsed, busy = now[0] - self._since[0], now[1] - self._since[1]
            self._longest = max(self._longest, min(elapsed, busy))
            self._longest_stall = max(self._longest_stall, elapsed)

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), processor_seconds(self._pid)


class Bystander:
    def __init__(self, pid: int, most_bytes: int) -> None:
        self._pid = pid
        self._most_bytes = most_bytes
        self._port = 0
        self._stream, self._health, self._chat = Wait(pid), Wait(pid), Wait(pid)
        self._peak = 0
        self._trouble: list[str] = []
        self._watching = threading.Event()
        self._streaming = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._guard, daemon=True).start()

    def watch(self, port: str) -> dict[str, object]:
        self._port = int(port)
        self._watching.set()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read_stream, self._poll, self._ask)
        ]
        for thread in self._threads:
            thread.start()
        self._streaming.wait(TIMEOUT)
        return self.figures()

    def figures(self) -> dict[str, object]:
        gap, stall, chunks = self._stream.take()
        health, health_stall, polls = self._health.take()
        chat, chat_stall, chats = self._chat.take()
        peak, self._peak = max(self._peak, resident(self._pid)), 0
        trouble, self._trouble = self._trouble, []
        return {
            "gap": gap,
            "chunks": chunks,
            "health": health,
            "polls": polls,
            "chat": chat,
            "chats": chats,
            "stall": max(stall, health_stall, chat_stall),
            "resident": peak,
            "trouble": trouble,
        }

    def rest(self) -> dict[str, object]:
        self._watching.clear()
        if self._connection is not None and self._connection.sock is not None:
            with contextlib.suppress(OSError):  # the server may be gone
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(TIMEOUT)
        self._streaming.clear()
        return self.figures()

    def _read_stream(self) -> None:
        """One stream after the other; an answer as long as the context takes minutes."""
        self._stream.begin()
        while self._watching.is_set():
            try:
                for _ in self._chunks():
                    self._stream.happened(again=True)
                    self._streaming.set()
            except (OSError, http.client.HTTPException, ValueError) as error:
                if self._watching.is_set():
                    self._trouble.append(f"stream: {error!r}")
                    time.sleep(POLL_SECONDS)
        self._stream.happened(again=False)

    def _chunks(self) -> Iterator[None]:
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        self._connection.request(
            "POST", "/v1/chat/completions", json.dumps(STREAM), {"content-type": "application/json"}
        )
        response = self._connection.getresponse()
        if response.status != 200:
            raise ValueError(f"{response.status} {response.read()[:500]!r}")
        for line in response:
            if line.startswith(b'data: {"error"'):
                raise ValueError(line[:500])
            if line.startswith(b"data: "):
                yield
            if not self._watching.is_set():
                return

    def _poll(self) -> None:
        while self._watching.is_set():
            self._exchange("GET", "/health", None, self._health)
            time.sleep(POLL_SECONDS)

    def _exchange(self, method: str, path: str, body: str | None, wait: Wait) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        wait.begin()
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            said = response.read()
            if response.status != 200:
                self._trouble.append(f"{path}: {response.status} {said[:300]!r}")
        except (OSError, http.client.HTTPException) as error:
            if self._watching.is_set():
                self._trouble.append(f"{path}: {error!r}")
        wait.happened(again=False)
        connection.close()

    def _ask(self) -> None:
        """Each question is another, so that none is answered from a cache."""
        for number in itertools.count():
            if not self._watching.is_set():
                return
            question = {**QUESTION, "messages": [{"role": "user", "content": f"What is {number} and {number}?"}]}
            self._exchange("POST", "/v1/chat/completions", json.dumps(question), self._chat)
            time.sleep(ASK_SECONDS)

    def _guard(self) -> None:
        while True:
            held = resident(self._pid)
            self._peak = max(self._peak, held)
            if held > self._most_bytes:
                self._trouble.append(f"killed: the server held {held / 1e9:.2f} GB")
                os.kill(self._pid, signal.SIGKILL)
                return
            time.sleep(WEIGH_SECONDS)


def processor_seconds(pid: int) -> float:
    """What the process has used of all cores; where the system does not tell cheaply, as if it were always busy."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes of memory that the process and its children hold; 0 when it is gone."""
    if not os.path.exists("/proc/self/statm"):
        return _resident_by_ps(pid)
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b") ")[2].split()
            except OSError:  # it ended while we looked
                continue
            if int(name) == pid or int(fields[1]) == pid:
                total += int(fields[21]) * page
    return total


def _resident_by_ps(pid: int) -> int:
    lines = subprocess.run(["ps", "-axo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in lines.splitlines()]
    return sum(kilobytes << 10 for own, parent, kilobytes in rows if pid in (own, parent))


def main() -> None:
    pid = int(sys.argv[1])
    bystander = Bystander(pid, int(sys.argv[2]))
    commands: dict[str, Callable[..., dict[str, object]]] = {
        "watch": bystander.watch,
        "figures": bystander.figures,
        "rest": bystander.rest,
    }
    for line in sys.stdin:
        command, *arguments = line.split()
        print(json.dumps(commands[command](*arguments)), flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
