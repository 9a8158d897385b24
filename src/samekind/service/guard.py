"""Who may ask, and what every answer carries.

A page of another site must not use the service through the visitor's browser. So the Host must be one of ours (DNS
rebinding), a write must come from our own page (Origin), and all but the page itself needs the token: as `Bearer`, or
as a cookie that a link gives once. Nothing is logged of requests.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from samekind.service.errors import Refusal

LOOPBACK = ("127.0.0.1", "localhost", "::1")
READS = ("GET", "HEAD", "OPTIONS")
PUBLIC = ("/", "/page.css", "/page.js", "/icon.svg")  # nothing in them is secret
LEAST_TOKEN = 16  # characters

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


@dataclass
class Tokens:
    """The secrets of one start: for programs, for the link that is opened once, for the browser that opened it."""

    api: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    link: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def __post_init__(self) -> None:
        if len(self.api) < LEAST_TOKEN or not self.api.isascii() or not self.api.isprintable():
            raise ValueError(
                f"A token must have at least {LEAST_TOKEN} characters of plain ASCII; choose a longer one."
            )

    def take_link(self, given: str) -> bool:
        """Whether this is the link's secret, which is good for one time."""
        right = self.link is not None and _equal(given, self.link)
        if right:
            self.link = None
        return right


class Guard:
    """Middleware around everything."""

    def __init__(self, app: ASGIApp, tokens: Tokens, hosts: Iterable[str], cookie: str) -> None:
        self.app, self.tokens, self.cookie = app, tokens, cookie
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
        except Refusal as refusal:
            answer = JSONResponse(refusal.to_json(), refusal.status, refusal.headers)
            await answer(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or _host_name(host) not in self.hosts:
            raise Refusal(
                403, "foreign_host", "This service does not answer to that Host: see samekind serve --allow-host."
            )
        by_token = self._has_token(headers)
        if scope["method"] not in READS:
            self._check_origin(headers, host, by_token)
        if scope["path"] not in PUBLIC and not by_token and not self._has_cookie(headers):
            raise Refusal(
                401,
                "unauthorised",
                "Open the link that samekind serve printed, or give its token as `Authorization: Bearer TOKEN`.",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _check_origin(self, headers: Headers, host: str, by_token: bool) -> None:
        """A browser names the origin of every write; only programs, which have the token, need not."""
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        own = by_token if origin is None else _authority(origin) == host.lower()
        if not own or site not in ("same-origin", "none"):
            raise Refusal(403, "foreign_origin", "Changes are taken from this service's own page, or with its token.")

    def _has_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and _equal(given.strip(), self.tokens.api)

    def _has_cookie(self, headers: Headers) -> bool:
        given = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return _equal(given, self.tokens.session)


def _equal(given: str, secret: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _host_name(host: str) -> str:
    """Of `name:port` or `[::1]:port`, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
