"""An imitation of the Hugging Face hub: as much of its HTTP API as huggingface_hub needs to download a model.

Weights are redirected to another path, as the hub redirects to its storage, and honour Range. A repository can be
gated, a connection can break off in the middle of a file, and the hub can be down.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PART = 1 << 16


@dataclass(slots=True)
class Hub:
    repositories: dict[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    url: str = ""
    down: bool = False
    got: list[str] = field(default_factory=list)  # files whose bytes were asked for, with the range
    drop_after: int | None = None  # bytes of a weight file, once
    hold_after: int | None = None  # the same, and then nothing until `go_on`
    held: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)


@contextmanager
def hub() -> Iterator[Hub]:
    shown = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *words: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = urlsplit(self.path).path
            named = re.match(r"(?:/api/models)?/([^/]+/[^/]+)(?:/|$)", path)
            name = named[1] if named else ""
            if shown.down:
                self.refuse(503, "Down", "The hub is being mended")
            elif name in shown.gated:
                self.refuse(401, "GatedRepo", "Access to this model is restricted. You must have access to it.")
            elif name not in shown.repositories:
                self.refuse(401 if path.startswith("/api") else 404, "RepoNotFound", "Repository not found")
            elif path == f"/api/models/{name}/tree/{COMMIT}":
                self.send_json([self.entry(file) for file in sorted(shown.repositories[name].iterdir())])
            elif path.startswith(f"/api/models/{name}"):
                siblings = [{"rfilename": file.name} for file in sorted(shown.repositories[name].iterdir())]
                self.send_json({"id": name, "sha": COMMIT, "siblings": siblings})
            else:
                self.file(shown.repositories[name] / path.rpartition("/")[2], stored="/stored/" in path)

        def entry(self, file: Path) -> dict[str, object]:
            content = file.read_bytes()
            found = {"type": "file", "path": file.name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            large = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            return {**found, "lfs": large} if file.suffix == ".safetensors" else found

        def file(self, file: Path, stored: bool) -> None:
            if not file.is_file():
                self.refuse(404, "EntryNotFound", "Entry not found")
                return
            large = file.suffix == ".safetensors"
            content = file.read_bytes()
            tag = (hashlib.sha256 if large else hashlib.sha1)(content).hexdigest()
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
            if large and not stored:
                storage = self.path.replace("/resolve/", "/stored/")
                linked = {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{tag}"', "Location": storage}
                self.head(302, {**headers, **linked, "Content-Length": "0"})
                return
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(asked[1]) if asked else 0
            if asked:
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.head(206 if asked else 200, {**headers, "Content-Length": str(len(content) - start)})
            if self.command == "GET":
                shown.got.append(f"{file.name}@{start}" if start else file.name)
                self.body(content[start:], large)

        def body(self, content: bytes, large: bool) -> None:
            drop, hold = (shown.drop_after, shown.hold_after) if large else (None, None)
            for place in range(0, len(content), PART):
                if drop is not None and place >= drop:
                    shown.drop_after, self.close_connection = None, True
                    return
                if hold is not None and place >= hold and not shown.held.is_set():
                    shown.held.set()
                    shown.go_on.wait(60)
                self.wfile.write(content[place : place + PART])

        def send_json(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
            self.wfile.write(body)

        def refuse(self, status: int, code: str, message: str) -> None:
            self.head(status, {"X-Error-Code": code, "X-Error-Message": message, "Content-Length": "0"})

        def head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that left."""

    server = Quiet(("127.0.0.1", 0), Handler)
    shown.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield shown
    finally:
        shown.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
