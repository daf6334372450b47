"""Fetching from local servers. They are reached through the constructor's own parameters, as tests may."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from paceline.conversation.remote import Address, Fetcher, Resolve, is_public, system_addresses
from paceline.errors import InvalidRequest
from tests.waiting import WAIT, until

FIELD = "messages[0].content[1].image_url"
BYTES = 100_000
LOCAL = ip_address("127.0.0.1")


class Pictures(http.server.ThreadingHTTPServer):
    """Answers by path; `asked` has every request's path and Host."""

    daemon_threads = True

    def __init__(self, paths: dict[str, Callable[[http.server.BaseHTTPRequestHandler], None]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths = paths
        self.asked: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what these tests are about."""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Pictures)
        self.server.asked.append((self.path, self.headers["host"]))
        self.server.headers = dict(self.headers.items())
        self.server.paths[self.path.partition("?")[0]](self)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answer(
    data: bytes = b"picture", kind: str | None = "image/png", status: int = 200, length: int | None = None, **more: str
) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def send(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if kind is not None:
            handler.send_header("content-type", kind)
        if length is not None:
            handler.send_header("content-length", str(length))
        for name, value in more.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(data)

    return send


def to(place: str, status: int = 302) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    return answer(b"", None, status, location=place)


@contextlib.contextmanager
def serving(**paths: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[Pictures]:
    server = Pictures({f"/{name}": send for name, send in paths.items()})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def names(**known: str) -> Resolve:
    """`names(a="127.0.0.1")` knows a.example; addresses are their own names."""

    def resolve(host: str, port: int) -> Sequence[str]:
        with contextlib.suppress(ValueError):
            return [str(ip_address(host))]
        try:
            return [known[host.removesuffix(".example")]]
        except KeyError:
            raise OSError("no such host") from None

    return resolve


def only_local(address: Address) -> bool:
    """127.0.0.1 plays the public network; all else is judged as ever."""
    return address == LOCAL or is_public(address)


def fetcher(server: Pictures, **options: Any) -> Fetcher:
    options = {"resolve": names(pictures="127.0.0.1"), "allowed": only_local, **options}
    return Fetcher(ports=[server.server_port], **options)


def fetch(fetcher: Fetcher, url: str, *, max_bytes: int = BYTES, seconds: float = 10.0) -> bytes:
    return fetcher.fetch(url, max_bytes, time.monotonic() + seconds, field=FIELD)


def refused(fetcher: Fetcher, url: str, words: str, **limits: Any) -> str:
    with pytest.raises(InvalidRequest, match=words or None) as caught:
        fetch(fetcher, url, **limits)
    assert caught.value.field == FIELD and FIELD in str(caught.value)
    return str(caught.value)


def test_an_image_is_fetched_by_the_hosts_name_and_nothing_is_compressed_on_the_way() -> None:
    with serving(cat=answer(b"miaow")) as server:
        url = f"http://PICTURES.example.:{server.server_port}/cat?size=5&b=%20#part"
        assert fetch(fetcher(server), url) == b"miaow"
        assert server.asked == [("/cat?size=5&b=%20", f"pictures.example:{server.server_port}")]
        assert server.headers["Accept-Encoding"] == "identity"
        assert server.headers["User-Agent"].startswith("paceline/")


def test_an_address_with_other_letters_is_written_as_http_has_it() -> None:
    with serving(**{"k%C3%A4tz%20chen": answer(b"miaow")}) as server:
        assert fetch(fetcher(server), f"http://pictures.example:{server.server_port}/kätz chen") == b"miaow"


def test_a_chunked_answer_is_read() -> None:
    def chunks(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    with serving(cat=chunks) as server:
        assert fetch(fetcher(server), f"http://pictures.example:{server.server_port}/cat") == b"abcde"


def test_redirects_are_followed_three_times() -> None:
    with serving(a=to("/b"), b=to("c", 301), c=to("//pictures.example:{}/d", 308), d=answer(b"end")) as server:
        server.paths["/c"] = to(f"//pictures.example:{server.server_port}/d", 308)
        assert fetch(fetcher(server), f"http://pictures.example:{server.server_port}/a") == b"end"
        server.paths["/d"] = to("/e")
        server.paths["/e"] = answer()
        refused(fetcher(server), f"http://pictures.example:{server.server_port}/a", "more than 3 times")


def test_a_loop_of_redirects_ends() -> None:
    with serving(a=to("/b"), b=to("/a")) as server:
        refused(fetcher(server), f"http://pictures.example:{server.server_port}/a", "more than 3 times")
        assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("http://127.0.0.2:{port}/secret", "no public address"),
        ("http://inside.example:{port}/secret", "no public address"),
        ("http://169.254.169.254:{port}/latest/meta-data/", "no public address"),
        ("http://[::1]:{port}/secret", "no public address"),
        ("http://[fd00:ec2::254]:{port}/", "no public address"),
        ("http://[::ffff:127.0.0.2]:{port}/", "no public address"),
        ("http://2130706434:{port}/", "not written as in"),
        ("http://pictures.example:22/", "port 22"),
        ("http://user:pass@pictures.example:{port}/secret", "user or a password"),
        ("file:///etc/passwd", "not http or https"),
        ("gopher://pictures.example/", "not http or https"),
        ("http://[", "could not be fetched"),
    ],
)
def test_a_redirect_is_checked_like_the_first_address(place: str, words: str) -> None:
    with serving(a=answer(), secret=answer(b"secret")) as server:
        server.paths["/a"] = to(place.format(port=server.server_port))
        resolve = names(pictures="127.0.0.1", inside="10.0.0.1")
        refused(fetcher(server, resolve=resolve), f"http://pictures.example:{server.server_port}/a", words)
        assert [path for path, _ in server.asked] == ["/a"]


def test_without_the_hook_of_the_tests_a_redirect_to_this_machine_is_refused() -> None:
    with serving(a=answer()) as inside, serving(a=to("")) as outside:
        outside.paths["/a"] = to(f"http://127.0.0.1:{inside.server_port}/a")
        hops = iter([True, False])
        judging = Fetcher(
            ports=[outside.server_port, inside.server_port],
            resolve=names(pictures="127.0.0.1"),
            allowed=lambda address: next(hops) or is_public(address),
        )
        refused(judging, f"http://pictures.example:{outside.server_port}/a", "no public address")
        assert inside.asked == []


def test_the_host_is_looked_up_once_and_the_address_that_was_checked_is_used() -> None:
    lookups: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"] if len(lookups) == 1 else ["127.0.0.2"]

    with serving(a=answer(b"first"), b=to("/a")) as server:
        local = fetcher(server, resolve=rebinding)
        assert fetch(local, f"http://pictures.example:{server.server_port}/a") == b"first"
        assert lookups == ["pictures.example"]
        refused(local, f"http://pictures.example:{server.server_port}/a", "no public address")
        lookups.clear()
        refused(local, f"http://pictures.example:{server.server_port}/b", "no public address")
        assert len(lookups) == 2 and [path for path, _ in server.asked] == ["/a", "/b"]


@pytest.mark.parametrize("found", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], [], ["not an address"]])
def test_one_private_address_among_public_ones_is_one_too_many(found: list[str]) -> None:
    with serving(a=answer()) as server:
        local = fetcher(server, resolve=lambda host, port: found)
        refused(local, f"http://pictures.example:{server.server_port}/a", "no public address")
        assert server.asked == []


def test_a_host_that_is_not_there_and_a_private_one_are_told_apart_by_nobody() -> None:
    strict = Fetcher(resolve=names(private="192.168.0.1"))
    assert refused(strict, "http://private.example/", "") == refused(strict, "http://nowhere.example/", "")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "0.0.0.0",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::8.8.8.8]",
        "[2002:7f00:1::]",
        "[2002:808:808::]",
        "[2001:0:4136:e378::1]",
        "[2001:db8::1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
    ],
)
def test_private_and_special_addresses_are_refused_by_the_systems_own_resolver(host: str) -> None:
    refused(Fetcher(), f"http://{host}/a", "no public address")


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "127.1", "1.2.3.4.5", "1.0x"])
def test_an_ip_address_in_an_unusual_form_is_refused(host: str) -> None:
    refused(Fetcher(), f"http://{host}/a", "not written as in")


@pytest.mark.parametrize("host", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"])
def test_public_addresses_are_public(host: str) -> None:
    assert is_public(ip_address(host))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://", "no valid host"),
        ("http:///a", "no valid host"),
        ("http://[fe80::1%25eth0]/", "no valid host"),
        ("http://[::1", "not a valid address"),
        ("http://example.org:99999/", "not a valid address"),
        ("http://example.org:x/", "not a valid address"),
        ("http://a b/", "no valid host"),
        ("http://a..b/", "no valid host"),
        (f"http://{'a' * 64}.org/", "no valid host"),
        ("http://example.org\\@127.0.0.1/", "user or a password"),
        ("http://user@example.org/", "user or a password"),
        ("http://:@example.org/", "user or a password"),
        ("http://example.org:22/", "port 22"),
        ("https://example.org:8080/", "port 8080"),
        ("http://example.org:0/", "port 0"),
    ],
)
def test_an_address_that_is_odd_is_refused_before_anything_is_looked_up(url: str, words: str) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    refused(Fetcher(resolve=resolve), url, words)


def test_with_a_list_of_hosts_only_those_are_asked() -> None:
    with serving(a=answer(b"yes")) as server:
        port = server.server_port
        resolve = names(pictures="127.0.0.1", **{"cdn.pictures": "127.0.0.1", "notpictures": "127.0.0.1"})
        for hosts, host, allowed in [
            (["pictures.example"], "pictures.example", True),
            (["pictures.example"], "cdn.pictures.example", False),
            (["*.pictures.example"], "cdn.pictures.example", True),
            (["*.pictures.example"], "pictures.example", False),
            (["*.pictures.example"], "notpictures.example", False),
            ([f"pictures.example:{port + 1}"], "pictures.example", False),
            (["other.example", "pictures.example"], "PICTURES.example", True),
        ]:
            listed = fetcher(server, resolve=resolve, hosts=hosts)
            if allowed:
                assert fetch(listed, f"http://{host}:{port}/a") == b"yes"
            else:
                refused(listed, f"http://{host}:{port}/a", "not fetched from here")


def test_a_port_can_be_listed_with_its_host_and_private_addresses_stay_refused() -> None:
    with serving(a=answer(b"yes")) as server:
        port = server.server_port
        hosts = [f"pictures.example:{port}", f"private.example:{port}"]
        resolve = names(pictures="127.0.0.1", private="10.0.0.1")
        listed = Fetcher(hosts=hosts, resolve=resolve, allowed=only_local)
        assert fetch(listed, f"http://pictures.example:{port}/a") == b"yes"
        refused(listed, f"http://private.example:{port}/a", "no public address")
        refused(listed, f"http://pictures.example:{port + 1}/a", "not fetched from here")


@pytest.mark.parametrize("length", [None, BYTES + 1, 10])
def test_what_is_too_large_is_refused_by_its_length_or_while_it_grows(length: int | None) -> None:
    with serving(a=answer(b"x" * (BYTES + 1), length=length)) as server:
        url = f"http://pictures.example:{server.server_port}/a"
        if length == 10:
            assert fetch(fetcher(server), url) == b"x" * 10
        else:
            refused(fetcher(server), url, f"more than {BYTES} bytes")


def test_an_endless_answer_is_read_to_its_limit_only() -> None:
    sent = 0

    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        nonlocal sent
        answer(b"")(handler)
        with contextlib.suppress(OSError):
            while True:
                sent += handler.wfile.write(b"x" * 10_000)

    with serving(a=endless) as server:
        refused(fetcher(server), f"http://pictures.example:{server.server_port}/a", f"more than {BYTES} bytes")
    assert sent < 100 * BYTES  # what the system's buffers hold


def test_a_compressed_answer_is_refused_unread() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with serving(a=answer(bomb, content_encoding="gzip")) as server:
        refused(fetcher(server), f"http://pictures.example:{server.server_port}/a", "compressed")


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (answer(kind="text/html; charset=utf-8"), "'text/html', which is not an image"),
        (answer(kind="application/json"), "'application/json'"),
        (answer(status=404), "status 404"),
        (answer(status=304), "status 304"),
        (answer(b"", None, 302), "status 302"),
        (lambda handler: handler.wfile.write(b"not http\r\n\r\n"), "connection failed"),
        (lambda handler: None, "connection failed"),
        (lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000), "connection failed"),
    ],
)
def test_an_answer_that_is_no_image_is_refused(
    send: Callable[[http.server.BaseHTTPRequestHandler], None], words: str
) -> None:
    with serving(a=send) as server:
        refused(fetcher(server), f"http://pictures.example:{server.server_port}/a", words)


@pytest.mark.parametrize("kind", [None, "image/webp", "application/octet-stream", "IMAGE/PNG;x=y"])
def test_a_type_that_may_be_an_image_is_read(kind: str | None) -> None:
    with serving(a=answer(b"x", kind=kind)) as server:
        assert fetch(fetcher(server), f"http://pictures.example:{server.server_port}/a") == b"x"


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n"])
def test_a_slow_drip_ends_in_time_in_head_and_body(head: bytes) -> None:
    begun, hung_up = threading.Event(), threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        begun.set()
        try:
            handler.wfile.write(head)
            for byte in b"HTTP/1.1 200 OK\r\nx-padding: " + b"y" * 2000:
                handler.wfile.write(bytes([byte]))
                time.sleep(0.02)
        except OSError:
            hung_up.set()

    with serving(a=drip) as server:
        url = f"http://pictures.example:{server.server_port}/a"
        refused(fetcher(server), url, "in the time allowed", seconds=0.5)
        assert hung_up.wait(WAIT) or not begun.is_set()  # on a busy machine the time may be over before it is asked


def test_a_server_that_says_nothing_and_a_lookup_that_takes_long_end_in_time() -> None:
    done = threading.Event()

    def slow(host: str, port: int) -> Sequence[str]:
        done.wait(WAIT)
        return ["127.0.0.1"]

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        local = Fetcher(ports=[port], resolve=names(pictures="127.0.0.1"), allowed=only_local)
        refused(local, f"http://pictures.example:{port}/", "in the time allowed", seconds=0.2)
        refused(local, f"https://127.0.0.1:{port}/", "in the time allowed", seconds=0.2)
    refused(Fetcher(resolve=slow), "http://pictures.example/", "in the time allowed", seconds=0.2)
    done.set()


def test_nothing_stays_open_after_refusals() -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"))

    with serving(a=answer(), b=answer(kind="text/html"), c=to("http://10.0.0.1/"), d=lambda handler: None) as server:
        local = fetcher(server)
        base = f"http://pictures.example:{server.server_port}"
        fetch(local, f"{base}/a")
        before = files()
        for _ in range(20):
            fetch(local, f"{base}/a")
            for path in "bcd":
                refused(local, f"{base}/{path}", "")
        until(lambda: files() <= before + 3)  # the server's own side closes a little later


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=pictures.example",
        "-days",
        "2",
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(a=answer(b"secret")) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        refused(fetcher(server), f"https://pictures.example:{server.server_port}/a", "certificate is not valid")
        assert server.asked == []


def test_the_systems_resolver_answers_with_addresses() -> None:
    assert system_addresses("127.0.0.1", 80) == ["127.0.0.1"]
