"""The viewer as an ASGI application: addresses to pages, each as HTML or JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from headrace import _optional
from headrace.errors import HeadraceError, NoSuchFeature
from headrace.io.system import usable_cores
from headrace.sources.conditions.terms import ConditionError
from headrace.viewer.access import Access, wants_json
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.markup import Markup, element, join, page
from headrace.viewer.display.media import Media, image_of, item_of, recording_of, wave_of
from headrace.viewer.pages.bytes import bytes_page
from headrace.viewer.pages.compare import compare_page
from headrace.viewer.pages.endpoints import endpoint_page, endpoints_page
from headrace.viewer.pages.faults import faults_page, refused_page
from headrace.viewer.pages.order import grid_page, order_page
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block, command_line, with_changes
from headrace.viewer.pages.rows import row_page, rows_page
from headrace.viewer.pages.schema import schema_page
from headrace.viewer.pages.search import found_rows, searches
from headrace.viewer.work import Works

if TYPE_CHECKING:
    from anyio import CapacityLimiter
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response, StreamingResponse

__all__ = ["Viewer", "create_app"]

FAILED = "a page of the viewer failed"
LOG = logging.getLogger("headrace.viewer")
PATIENCE_S = 30.0
"""The longest that a page may take."""
STATIC = {"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8"}
VIEWS = {"": "Rows", "schema": "Features", "grid": "Images", "order": "Order", "faults": "Faults"}
SHOWN_OF_DAMAGED = ("faults", "bytes")
"""Views of files that cannot be opened."""
MEDIA_POLICY = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "private, max-age=300"}
PLACE = "\x00results\x00"
"""Where results go between the halves of a page that is sent in pieces."""
MakesPage = Callable[[ShownDataset, Query, Links], Page]


class Viewer:
    """What one viewer shows.

    Args:
        datasets: The datasets; none shows the endpoints only.
    """

    def __init__(self, datasets: Sequence[ShownDataset]) -> None:
        self.datasets: list[ShownDataset] = list(datasets)
        self.works: Works = Works()
        self.base = ""
        """What all paths begin with; set when it is known where the viewer listens."""

    def navigation(self, number: int | None, current: str) -> Markup:
        """The links at the top of a page."""
        links = Links(self.base, number or 0)
        shown = [(view, name, links.to(view)) for view, name in VIEWS.items()] if number is not None else []
        if len(self.datasets) > 1:
            shown.append(("compare", "Side by side", links.above("compare")))
        shown.append(("endpoints", "Endpoints", links.above("endpoints")))
        parts = [
            element("a", name, href=href, aria_current="page" if view == current else None)
            for view, name, href in shown
        ]
        name = self.datasets[number].name if number is not None else "headrace view"
        return join([element("a", name, href=links.above(), class_="home"), element("nav", *parts, aria_label="views")])

    def pages(self) -> dict[str, MakesPage]:
        """The pages of one dataset, by the last part of their address."""
        return {
            "schema": partial(self._with_works, schema_page),
            "grid": grid_page,
            "faults": partial(self._with_works, faults_page),
            "bytes": partial(self._with_works, bytes_page),
            "order": order_page,
        }

    def _with_works(self, function: Callable[..., Page], dataset: ShownDataset, query: Query, links: Links) -> Page:
        return function(dataset, query, links, self.works)

    def front_page(self) -> Page:
        """All datasets."""
        links = [Links(self.base, number) for number in range(len(self.datasets))]
        items = [
            element("li", element("a", each.name, href=link.to()))
            for each, link in zip(self.datasets, links, strict=True)
        ]
        # Options of a command are the same for all its paths.
        words = [word for each in self.datasets for word in each.paths]
        is_whole = bool(self.datasets) and all(each.paths for each in self.datasets)
        command = command_line(["headrace", "view", *words, *self.datasets[0].flags("view")]) if is_whole else None
        code = code_block(python="\n".join(f"print({each.code})" for each in self.datasets), command=command)
        content = join([element("h1", "Datasets"), element("ul", *items), code])
        return Page(title="Datasets", content=content, data={"datasets": [each.name for each in self.datasets]})


def create_app(viewer: Viewer, *, hosts: Iterable[str], port: int, is_embedded: bool = False) -> Access:
    """The viewer as an ASGI application behind its access checks.

    Args:
        viewer: What it shows.
        hosts: Values of the ``Host`` header that are answered.
        port: Where it listens.
        is_embedded: Whether it is shown in a frame of a notebook.

    Raises:
        MissingExtra: Starlette is not installed.
    """
    applications = _optional.require("starlette.applications", extra="serve")
    routing = _optional.require("starlette.routing", extra="serve")
    routes = _PageRoutes(viewer)
    convertors = _optional.require("starlette.convertors", extra="serve")
    # Python refuses to read thousands of digits.
    short = type("ShortNumber", (convertors.IntegerConvertor,), {"regex": "[0-9]{1,9}"})
    convertors.register_url_convertor("dataset", short())

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            viewer.works.stop()

    app: Starlette = applications.Starlette(
        routes=[
            routing.Route("/", routes.front, methods=["GET"]),
            routing.Route("/static/{name}", routes.static, methods=["GET"]),
            routing.Route("/compare", routes.compare, methods=["GET"]),
            routing.Route("/endpoints", routes.endpoints, methods=["GET"]),
            routing.Route("/endpoints/{name}", routes.endpoint, methods=["GET"]),
            routing.Route("/{number:dataset}/", routes.rows, methods=["GET"]),
            routing.Route("/{number:dataset}/image", routes.image, methods=["GET"]),
            routing.Route("/{number:dataset}/audio", routes.audio, methods=["GET"]),
            routing.Route("/{number:dataset}/{view}", routes.view, methods=["GET"]),
        ],
        exception_handlers={404: routes.no_page},
        lifespan=lifespan,
    )
    access = Access(app, hosts=hosts, port=port, is_embedded=is_embedded)
    viewer.base = access.base
    return access


class _PageRoutes:
    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        responses: Any = _optional.require("starlette.responses", extra="serve")
        self._response: type[Response] = responses.Response
        self._streaming: type[StreamingResponse] = responses.StreamingResponse
        self._redirect: type[RedirectResponse] = responses.RedirectResponse
        self._threads = _optional.require("anyio.to_thread", extra="serve")
        # Each may hold the pixels of a large image, so only some are made at once.
        self._media_room: CapacityLimiter = _optional.require("anyio", extra="serve").CapacityLimiter(usable_cores())

    async def front(self, request: Request) -> Response:
        datasets = self._viewer.datasets
        if len(datasets) == 1 and not _wants_json(request):
            query = f"?{request.url.query}" if request.url.query else ""
            return self._redirect(f"{self._viewer.base}/0/{query}", status_code=303)
        if not datasets and not _wants_json(request):
            return self._redirect(f"{self._viewer.base}/endpoints", status_code=303)
        return self._show(request, self._viewer.front_page(), None, "")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return self._failure(request, "there is no such file", 404)
        body = resources.files("headrace.viewer").joinpath("static", name).read_bytes()
        return self._response(body, media_type=STATIC[name], headers={"cache-control": "private, max-age=300"})

    async def compare(self, request: Request) -> Response:
        viewer = self._viewer
        return await self._answer(
            request, lambda query: compare_page(viewer.datasets, query, viewer.base, viewer.works), None, "compare"
        )

    async def endpoints(self, request: Request) -> Response:
        return await self._answer(request, lambda _: endpoints_page(self._viewer.base), None, "endpoints")

    async def endpoint(self, request: Request) -> Response:
        name, viewer = request.path_params["name"], self._viewer
        return await self._answer(
            request, lambda query: endpoint_page(name, viewer.datasets, query, viewer.base), None, "endpoints"
        )

    async def rows(self, request: Request) -> Response:
        number, query = request.path_params["number"], _query(request)
        dataset = self._dataset(number)
        if dataset is None:
            return self._failure(request, "there is no such dataset", 404)
        links = Links(self._viewer.base, number)
        if dataset.refusal is not None:
            return await self._answer(request, lambda query: refused_page(dataset, query, links), number, "")
        if query.text("row"):
            return await self._answer(request, lambda query: row_page(dataset, query, links), number, "")
        if query.text("where"):
            return await self._search(request, dataset, query, links)
        return await self._answer(request, lambda query: rows_page(dataset, query, links), number, "")

    async def _search(self, request: Request, dataset: ShownDataset, query: Query, links: Links) -> Response:
        as_json = _wants_json(request)

        def begin() -> tuple[Markup, Iterator[str]] | tuple[str, int]:
            try:
                wanted = searches(query)
                assert wanted is not None
                len(dataset.source)
                return found_rows(dataset, query, links, wanted, as_json=as_json)
            except (BadQuery, ConditionError, NoSuchFeature) as error:
                return str(error), 400
            except (HeadraceError, OSError, ValueError) as error:
                return str(error), 422
            except Exception as error:
                LOG.exception(FAILED)
                return f"this search failed with {type(error).__name__}: {error}", 500

        head, results = await self._run(begin) or (_too_slow(), 503)
        if isinstance(results, int):
            return self._failure(request, head, results, links.number)
        if as_json:
            return self._streaming(results, media_type="application/x-ndjson")
        navigation = self._viewer.navigation(links.number, "")
        whole = page(dataset.name, base=self._viewer.base, navigation=navigation, content=join([head, Markup(PLACE)]))
        before, _, after = whole.partition(PLACE)

        def pieces() -> Iterator[str]:
            yield before
            yield from results
            yield after

        return self._streaming(pieces(), media_type="text/html; charset=utf-8")

    async def view(self, request: Request) -> Response:
        number, name = request.path_params["number"], request.path_params["view"]
        dataset, page = self._dataset(number), self._viewer.pages().get(name)
        if dataset is None or page is None:
            return self._failure(request, "there is no such page", 404)
        made = page if dataset.refusal is None or name in SHOWN_OF_DAMAGED else refused_page
        links = Links(self._viewer.base, number)
        return await self._answer(request, lambda query: made(dataset, query, links), number, name)

    async def image(self, request: Request) -> Response:
        return await self._media(
            request, lambda value, dataset, name, size: image_of(value, dataset.schema[name], size)
        )

    async def audio(self, request: Request) -> Response:
        return await self._media(request, _recording)

    async def _media(self, request: Request, made: Callable[[Any, ShownDataset, str, int], Media]) -> Response:
        dataset, query = self._dataset(request.path_params["number"]), _query(request)

        def read() -> Media | str:
            try:
                assert dataset is not None
                name = query.feature("feature", dataset)
                row, item, size = query.number("row", 0), query.number("item", 0), query.number("size", 0, most=4096)
                if name is None:
                    return "feature must name a feature"
                found = dataset.rows_at([row], [name])[0]
                if found.values is None or name not in found.values:
                    return found.fault or "it is too large to show"
                value = found.values[name]
                return made(item_of(value, item) if not _is_samples(value) else value, dataset, name, size)
            except Exception as error:  # noqa: BLE001 - a damaged image raises anything
                return str(error) or type(error).__name__

        if dataset is None:
            return self._failure(request, "there is no such dataset", 404)
        media = await self._run(read, self._media_room)
        if not isinstance(media, Media):
            return self._response(media or _too_slow(), status_code=422, media_type="text/plain; charset=utf-8")
        return self._response(media.body, headers={"content-type": media.media_type, **MEDIA_POLICY})

    async def _answer(self, request: Request, made: Callable[[Query], Page], number: int | None, name: str) -> Response:
        query, shown = _query(request), self._dataset(number)

        def make() -> Page | tuple[str, int]:
            try:
                return with_changes(made(query), [shown] if shown is not None else self._viewer.datasets)
            except (BadQuery, ConditionError) as error:
                return str(error), 400
            except (HeadraceError, OSError, MemoryError) as error:
                return str(error) or "there is not enough memory for this", 422
            except Exception as error:
                LOG.exception(FAILED)
                return f"this page failed with {type(error).__name__}: {error}", 500

        view = await self._run(make)
        if view is None:
            return self._failure(request, _too_slow(), 503, number)
        if isinstance(view, tuple):
            reason, status = view
            return self._failure(request, reason, status, number)
        return self._show(request, view, number, name)

    async def _run(self, function: Callable[[], Any], room: CapacityLimiter | None = None) -> Any:
        """Run it in a thread; ``None`` if that takes too long. The thread continues, and its result is dropped."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._threads.run_sync(function, abandon_on_cancel=True, limiter=room)
        except TimeoutError:
            return None

    def _dataset(self, number: int | None) -> ShownDataset | None:
        datasets = self._viewer.datasets
        return datasets[number] if number is not None and number < len(datasets) else None

    def _show(self, request: Request, view: Page, number: int | None, name: str) -> Response:
        if _wants_json(request):
            return self._response(json.dumps(view.data), status_code=view.status, media_type="application/json")
        html = view.html(self._viewer.navigation(number, name), self._viewer.base)
        return self._response(
            html.encode("utf-8", "replace"), status_code=view.status, media_type="text/html; charset=utf-8"
        )

    def _failure(self, request: Request, reason: str, status: int, number: int | None = None) -> Response:
        content = join([element("h1", "This cannot be shown"), element("p", reason, class_="fault", role="alert")])
        return self._show(
            request, Page(title="Not shown", content=content, data={"error": reason}, status=status), number, ""
        )

    async def no_page(self, request: Request, _: Exception) -> Response:
        return self._failure(request, "there is no such page", 404)


def _too_slow() -> str:
    return f"this took longer than {PATIENCE_S:.0f} seconds"


def _query(request: Request) -> Query:
    return Query(dict(request.query_params))


def _wants_json(request: Request) -> bool:
    return wants_json(request.query_params, request.headers.get("accept", ""))


def _is_samples(value: Any) -> bool:
    """Whether a value is an array of numbers: pixels or samples, of which there is one."""
    return getattr(getattr(value, "dtype", None), "kind", "O") in "biuf"


def _recording(value: Any, dataset: ShownDataset, name: str, _: int) -> Media:
    return wave_of(value, dataset.sample_rate(name)) if _is_samples(value) else recording_of(value)
