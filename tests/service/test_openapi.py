"""The OpenAPI file: true of every route, and of what schemathesis makes of it."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from samekind.gallery import Gallery
from samekind.service.api import create_app
from samekind.service.engine import Engine
from samekind.service.guard import LOOPBACK, Tokens
from samekind.service.openapi import description
from tests.service.conftest import TOKEN


def test_every_route_is_described(home):
    app = create_app(Engine(home.metric), Tokens(TOKEN), LOOPBACK)
    routes = {
        (route.path, method) for route in app.routes for method in route.methods - {"HEAD"} if "/api/" in route.path
    }
    paths = description(1, 1, 1)["paths"]
    described = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    assert described == routes - {("/api/openapi.json", "GET")}


def test_every_reference_leads_somewhere():
    made = description(1, 1, 1)

    def references(node):
        if isinstance(node, dict):
            yield from ([node["$ref"]] if "$ref" in node else [])
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    for reference in set(references(made)):
        assert reference.removeprefix("#/components/schemas/") in made["components"]["schemas"]


def asking(headers, excluded):
    def ask(case):
        case.call_and_validate(headers=headers, excluded_checks=excluded)

    return ask


@pytest.mark.slow
def test_schemathesis_finds_nothing(own):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

    from schemathesis.specs.openapi.checks import positive_data_acceptance

    app = create_app(Engine(own.metric, Gallery.open(own.gallery)), Tokens(TOKEN), ["testserver", *LOOPBACK])
    headers = {"Authorization": f"Bearer {TOKEN}"}
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=headers)
    n_operations = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        n_operations += 1

        # No schema can say which bytes are a picture that is large enough.
        excluded = [positive_data_acceptance] if operation.path == "/api/pictures" else []
        checked = given(case=operation.as_strategy())(asking(headers, excluded))
        settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(checked)()
    assert n_operations == 13
