"""The routes: HTTP in, calls of the engine, JSON out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from samekind.gallery.errors import GalleryError
from samekind.images.load import ImageError, header_size
from samekind.service.bodies import Bodies
from samekind.service.engine import Chosen, Engine
from samekind.service.errors import Refusal
from samekind.service.fields import Fields, bad_request, parse_id, parse_json, parse_points
from samekind.service.guard import Guard, Tokens
from samekind.service.lanes import Lane
from samekind.service.openapi import description
from samekind.service.pictures import MOST_FACES, NAME
from samekind.threads import effective_threads

MOST_JSON = 64_000  # bytes
LONG_PIXELS = 1_000_000  # larger pictures wait for each other, not for small ones
MOST_HITS, MOST_LABELS, MOST_RELABELLED = 100, 100, 500
PICTURE_NAME, LABEL, NOTE = 40, 200, 2000  # characters
PAGE = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js", "/icon.svg": "icon.svg"}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Limits:
    """What the service takes at once."""

    upload_bytes: int = 20_000_000
    bodies_bytes: int = 160_000_000
    # Short calls that wait for a thread. Who is refused comes back later than those who were not, and may be refused
    # again and again: a long queue is fairer than a short one. Bodies are bounded together.
    waiting: int = 256
    waiting_long: int = 8


class Api:
    """Handlers of the routes, with the lanes that they work in."""

    def __init__(self, engine: Engine, tokens: Tokens, cookie: str, limits: Limits) -> None:
        self.engine, self.tokens, self.cookie, self.limits = engine, tokens, cookie, limits
        self.bodies = Bodies(limits.bodies_bytes)
        # A detector takes long on any picture.
        self.always_long = engine.encoder.extractor.alignment == "detect"
        self.short = Lane("short", effective_threads(None), limits.waiting)
        self.searching = Lane("search", effective_threads(None), limits.waiting)
        self.long = Lane("long", max(1, effective_threads(None) // 2), limits.waiting_long)
        self.writes = Lane("writes", 1, limits.waiting_long)
        self.examining = Lane("doctor", 1, 0)
        self.quick = Lane("quick", 2, limits.waiting)  # what takes a millisecond or two, and never waits for a picture

    def close(self) -> None:
        self.engine.ending = True
        for lane in (self.short, self.searching, self.long, self.writes, self.examining, self.quick):
            lane.close()

    async def page(self, request: Request) -> Response:
        link = request.query_params.get("link")
        if link is not None:
            answer = RedirectResponse("/", 303)
            if self.tokens.take_link(link):
                self._set_cookie(answer)
            return answer
        name = PAGE[request.url.path]
        return Response(page_file(name), media_type=TYPES[name.rpartition(".")[2]])

    async def session(self, request: Request) -> Response:
        """The cookie, for those who have the token: the guard has checked it."""
        answer = Response(status_code=204)
        self._set_cookie(answer)
        return answer

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(description(self.limits.upload_bytes, MOST_HITS, MOST_FACES))

    async def info(self, request: Request) -> Response:
        _no_query(request)
        made = await self.quick.run(self.engine.info)
        limits = {"upload_bytes": self.limits.upload_bytes, "pixels": self.engine.max_pixels}
        return JSONResponse({**made, "limits": limits})

    async def add_picture(self, request: Request) -> Response:
        points = _query(request, "points")
        given = None if points is None else parse_points(points)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not (kind.startswith("image/") or kind == "application/octet-stream"):
            raise Refusal(415, "not_a_picture", "Send the bytes of a picture, as image/jpeg or image/png.")
        async with self.bodies.read(request, self.limits.upload_bytes) as data:
            pixels = await self.quick.run(_n_pixels, data)
            lane = self.long if self.always_long or pixels > LONG_PIXELS else self.short
            return JSONResponse(await lane.run(self.engine.add_picture, data, given), 201)

    async def crop(self, request: Request) -> Response:
        _no_query(request)
        face = request.path_params["face"]
        if not (face.isascii() and face.isdigit() and len(face) < 4):
            raise Refusal(404, "no_such_face", "There is no such face.")
        chosen = Chosen(request.path_params["picture"], int(face))
        return Response(await self.quick.run(self.engine.crop, chosen), media_type="image/png")

    async def verify(self, request: Request) -> Response:
        fields = await self._fields(request)
        a, b = _chosen(fields, "a"), _chosen(fields, "b")
        far, prior = fields.rate("far", default=None), fields.rate("prior", default=0.5)
        fields.done()
        # Never behind uploads: what was sent is answered before it is let go.
        return JSONResponse(await self.quick.run(lambda: self.engine.verify(a, b, far=far, prior=prior or 0.5)))

    async def explain(self, request: Request) -> Response:
        fields = await self._fields(request)
        a, b = _chosen(fields, "a"), _chosen(fields, "b")
        far = fields.rate("far", default=None)
        fields.done()
        return JSONResponse(await self.short.run(lambda: self.engine.explain(a, b, far=far)))

    async def search(self, request: Request) -> Response:
        fields = await self._fields(request)
        chosen = _chosen(fields, "picture")
        k = fields.whole("k", default=10, low=1, high=MOST_HITS)
        labels = fields.texts("labels", most=MOST_LABELS, longest=LABEL)
        far, prior = fields.rate("far", default=None), fields.rate("prior", default=0.5)
        fields.done()
        return JSONResponse(
            await self.searching.run(
                lambda: self.engine.search(chosen, k=k, labels=labels, far=far, prior=prior or 0.5)
            )
        )

    async def add_entry(self, request: Request) -> Response:
        fields = await self._fields(request)
        chosen = _chosen(fields, "picture")
        label, name = fields.text("label", most=LABEL), fields.text("name", most=LABEL)
        note = fields.text("note", most=NOTE)
        fields.done()
        return JSONResponse(
            await self.writes.run(lambda: self.engine.add(chosen, label=label, name=name, note=note)), 201
        )

    async def entry(self, request: Request) -> Response:
        _no_query(request)
        return JSONResponse(await self.quick.run(self.engine.entry, parse_id(request.path_params["id"])))

    async def remove_entry(self, request: Request) -> Response:
        _no_query(request)
        return JSONResponse(await self.writes.run(self.engine.remove, parse_id(request.path_params["id"])))

    async def relabel(self, request: Request) -> Response:
        fields = await self._fields(request)
        ids, label = fields.ids("ids", most=MOST_RELABELLED), fields.needed_text("label", most=LABEL)
        fields.done()
        return JSONResponse(await self.writes.run(self.engine.relabel, ids, label))

    async def rename(self, request: Request) -> Response:
        fields = await self._fields(request)
        old, new = fields.needed_text("old", most=LABEL), fields.needed_text("new", most=LABEL)
        fields.done()
        return JSONResponse(await self.writes.run(self.engine.rename, old, new))

    async def doctor(self, request: Request) -> Response:
        fields = await self._fields(request)
        fields.done()
        return JSONResponse(await self.examining.run(self.engine.doctor))

    async def thumbnail(self, request: Request) -> Response:
        _no_query(request)
        picture = await self.quick.run(self.engine.thumbnail, parse_id(request.path_params["id"]))
        return Response(picture, media_type="image/png" if picture.startswith(b"\x89PNG") else "image/jpeg")

    async def _fields(self, request: Request) -> Fields:
        _no_query(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(415, "not_json", "Send JSON, as application/json.")
        async with self.bodies.read(request, MOST_JSON) as data:
            return Fields(parse_json(data))

    def _set_cookie(self, answer: Response) -> None:
        answer.set_cookie(self.cookie, self.tokens.session, httponly=True, samesite="strict", path="/")


def create_app(
    engine: Engine,
    tokens: Tokens,
    hosts: Sequence[str],
    *,
    cookie: str = "samekind",
    limits: Limits | None = None,
) -> Starlette:
    """The service as an ASGI application; it closes the engine when it ends."""
    api = Api(engine, tokens, cookie, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            api.close()
            engine.close()

    return Starlette(
        routes=[
            *(Route(path, api.page, methods=["GET"]) for path in PAGE),
            Route("/session", api.session, methods=["POST"]),
            Route("/api/openapi.json", api.openapi, methods=["GET"]),
            Route("/api/info", api.info, methods=["GET"]),
            Route("/api/pictures", api.add_picture, methods=["POST"]),
            Route("/api/pictures/{picture}/crops/{face}", api.crop, methods=["GET"]),
            Route("/api/verify", api.verify, methods=["POST"]),
            Route("/api/explain", api.explain, methods=["POST"]),
            Route("/api/search", api.search, methods=["POST"]),
            Route("/api/entries", api.add_entry, methods=["POST"]),
            Route("/api/entries/{id}", api.entry, methods=["GET"]),
            Route("/api/entries/{id}", api.remove_entry, methods=["DELETE"]),
            Route("/api/relabel", api.relabel, methods=["POST"]),
            Route("/api/rename", api.rename, methods=["POST"]),
            Route("/api/doctor", api.doctor, methods=["POST"]),
            Route("/api/entries/{id}/thumbnail", api.thumbnail, methods=["GET"]),
        ],
        middleware=[Middleware(Guard, tokens=tokens, hosts=hosts, cookie=cookie)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )


def page_file(name: str) -> bytes:
    """A file of the page, from the package."""
    return files("samekind.service").joinpath("page", name).read_bytes()


Handler = Callable[[Request, Any], Awaitable[Response]]


async def _refuse(request: Request, error: Refusal) -> Response:
    return JSONResponse(error.to_json(), error.status, error.headers)


async def _refuse_http(request: Request, error: HTTPException) -> Response:
    """What the router refuses: unknown paths and methods."""
    refusal = Refusal(error.status_code, "not_found" if error.status_code == 404 else "refused", f"{error.detail}.")
    return JSONResponse(refusal.to_json(), error.status_code, error.headers)


async def _refuse_gallery(request: Request, error: GalleryError) -> Response:
    """Damaged, full or busy: the gallery's own words, which name what to do."""
    return JSONResponse(Refusal(409, "gallery", str(error)).to_json(), 409)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=400)


async def _failed(request: Request, error: Exception) -> Response:
    answer = Refusal(500, "failed", "Something went wrong here. The terminal of samekind serve says what.")
    return JSONResponse(answer.to_json(), 500)


HANDLERS: dict[Any, Handler] = {
    Refusal: _refuse,
    HTTPException: _refuse_http,
    GalleryError: _refuse_gallery,
    ClientDisconnect: _gone,
    Exception: _failed,
}


def _chosen(fields: Fields, name: str) -> Chosen:
    picture = fields.needed_text(name, most=PICTURE_NAME)
    face_name = "face" if name == "picture" else f"{name}_face"
    return Chosen(picture, fields.whole(face_name, default=0, low=0, high=MOST_FACES - 1))


def _n_pixels(data: bytes) -> int:
    try:
        width, height = header_size(data, NAME)
    except ImageError:
        return 0  # reading it will say what is wrong
    return width * height


def _query(request: Request, name: str) -> str | None:
    """The one parameter that there may be."""
    try:
        given = parse_qs(request.url.query, keep_blank_values=True, max_num_fields=8)
    except ValueError as error:
        raise bad_request("The query has too many parts.") from error
    values = given.pop(name, [None])
    if given or len(values) != 1:
        raise bad_request(f"The query may hold {name} once, and nothing else.")
    return values[0]


def _no_query(request: Request) -> None:
    if request.url.query:
        raise bad_request("No query is taken here.")
