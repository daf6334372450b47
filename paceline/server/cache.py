"""/v1/cache/clear: forgets the cached prefixes. For whoever sits at this machine, and for no web page there."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from paceline.server.backend import Serving
from paceline.server.errors import Forbidden


def routes(serving: Serving) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/cache/clear")
    async def clear_cache(request: Request) -> Response:
        check_local(request)
        serving.check_ready()
        return JSONResponse({"cleared": dict(await serving.backend.clear_cache())})

    return router


def check_local(request: Request) -> None:
    """Refuse clients elsewhere, and pages from elsewhere in a browser here: it sends their origin with every POST."""
    client = request.client.host if request.client is not None else ""
    if not is_loopback(client):
        raise Forbidden(
            f"Only clients on the server's own machine (127.0.0.1 or ::1) may do this; you are {client or 'unknown'}."
        )
    for origin in request.headers.getlist("origin"):
        if not is_loopback(_host_of(origin)):
            raise Forbidden(f"A web page may do this only from the server's own machine; this one is from {origin!r}.")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""
