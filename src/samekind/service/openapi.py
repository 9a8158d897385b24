"""The OpenAPI description of the API."""

from __future__ import annotations

from typing import Any

from samekind._version import __version__

Schema = dict[str, Any]


def description(upload_bytes: int, most_hits: int, most_faces: int) -> Schema:
    """An OpenAPI 3.1 document."""
    face = {"type": "integer", "minimum": 0, "maximum": most_faces - 1, "default": 0}
    rate = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    picture = {"type": "string", "minLength": 1, "maxLength": 40, "description": "Name that POST /api/pictures gave."}
    label = {"type": ["string", "null"], "maxLength": 200}
    far = {**rate, "type": ["number", "null"], "description": "False match rate; the model's threshold without it."}
    prior = {**rate, "type": ["number", "null"], "description": "Share of such pairs that are the same; 0.5."}
    pair = {"a": picture, "b": picture, "a_face": face, "b_face": face, "far": far}
    labels = {
        "type": ["array", "null"],
        "minItems": 1,
        "maxItems": 100,
        "items": {"type": "string", "minLength": 1, "maxLength": 200},
    }
    search = {
        "picture": picture,
        "face": face,
        "k": {"type": "integer", "minimum": 1, "maximum": most_hits, "default": 10},
        "labels": labels,
        "far": far,
        "prior": prior,
    }
    entry = {"picture": picture, "face": face, "label": label, "name": label, "note": {**label, "maxLength": 2000}}
    ids = {"type": "array", "minItems": 1, "maxItems": 500, "items": _ID}
    text = {"type": "string", "minLength": 1, "maxLength": 200}
    upload = {
        "required": True,
        "description": f"The bytes of a JPEG, PNG, PGM or PPM file, at most {upload_bytes:,}.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/jpeg", "image/png", "application/octet-stream")
        },
    }
    points = {
        "name": "points",
        "in": "query",
        "description": "x and y of left eye, right eye and mouth, separated by commas, for models aligned by points.",
        "schema": {"type": "string", "pattern": r"^[0-9]{1,5}(,[0-9]{1,5}){5}$"},
    }
    paths = {
        "/api/info": {"get": _call("What is served, and how long calls take", 200, "Info")},
        "/api/pictures": {
            "post": _call("Send a picture", 201, "Picture", (400, 408, 413, 415, 422), body=upload, parameters=[points])
        },
        "/api/pictures/{picture}/crops/{face}": {
            "get": _call(
                "What the model sees of a face",
                200,
                None,
                (400, 404, 422),
                parameters=[
                    _in_path("picture", {"type": "string"}),
                    _in_path("face", {"type": "integer", "minimum": 0}),
                ],
            )
        },
        "/api/verify": {
            "post": _call("Same or different?", 200, "Verification", body=_json({**pair, "prior": prior}, "a", "b"))
        },
        "/api/explain": {"post": _call("Which regions speak for it?", 200, "Explanation", body=_json(pair, "a", "b"))},
        "/api/search": {"post": _call("The nearest entries", 200, "Answer", body=_json(search, "picture"))},
        "/api/entries": {"post": _call("Add an entry to the gallery", 201, "Entry", body=_json(entry, "picture"))},
        "/api/entries/{id}": {
            "get": _call("An entry", 200, "Entry", parameters=[_in_path("id", _ID)]),
            "delete": _call("Erase an entry", 200, "Removal", parameters=[_in_path("id", _ID)]),
        },
        "/api/relabel": {
            "post": _call(
                "Another label for entries", 200, "Relabelled", body=_json({"ids": ids, "label": text}, "ids", "label")
            )
        },
        "/api/rename": {
            "post": _call(
                "Another name for a label", 200, "Relabelled", body=_json({"old": text, "new": text}, "old", "new")
            )
        },
        "/api/doctor": {"post": _call("What looks wrong in the gallery", 200, "Diagnosis", body=_json({}))},
        "/api/entries/{id}/thumbnail": {"get": _call("Its picture", 200, None, parameters=[_in_path("id", _ID)])},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "samekind", "version": __version__, "description": "Same or not, and what is nearest."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


_ID: Schema = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
_NUMBER: Schema = {"type": "number"}
_MAYBE: Schema = {"type": ["number", "null"]}
_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_USUAL = (400, 404, 408, 409, 413, 415, 422)
_WORDS = {
    400: "A field is missing, unknown or not as it must be",
    401: "No token, or a wrong one",
    403: "A foreign Host or Origin",
    404: "There is no such picture or entry",
    408: "The body did not arrive in time",
    409: "There is no gallery, or it cannot be used",
    413: "Too large",
    415: "Not of the type that is taken here",
    422: "The picture, face or rate cannot be used",
    503: "The service is ending",
    429: "Busy: try again after Retry-After seconds",
}


def _object(properties: Schema, *, more: bool = False) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": more}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(properties: Schema, *required: str) -> Schema:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _in_path(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _call(
    summary: str,
    status: int,
    schema: str | None,
    refusals: tuple[int, ...] = _USUAL,
    *,
    body: Schema | None = None,
    parameters: list[Schema] | None = None,
) -> Schema:
    right: Schema = (
        {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/png", "image/jpeg")}
        if schema is None
        else {"application/json": {"schema": _ref(schema)}}
    )
    wrong = {
        str(code): {"description": _WORDS[code], "content": {"application/json": {"schema": _ref("Error")}}}
        for code in sorted({*refusals, 400, 401, 403, 429})
    }
    made: Schema = {"summary": summary, "responses": {str(status): {"description": summary, "content": right}, **wrong}}
    if body is not None:
        made["requestBody"] = body
    if parameters:
        made["parameters"] = parameters
    return made


_ENTRY: Schema = {
    "id": _ID,
    "label": {"type": ["string", "null"]},
    "name": {"type": ["string", "null"]},
    "added": _TEXT,
    "note": {"type": ["string", "null"]},
}
_ANSWERED: Schema = {"same": {"type": ["boolean", "null"]}, "probability": _MAYBE, "distance": _NUMBER}
_REGION = _object(
    {
        "group": _TEXT,
        "rectangle": {"type": ["array", "null"], "items": _NUMBER, "description": "top, left, height, width"},
        "term": _NUMBER,
        "share": _NUMBER,
        "evidence": _NUMBER,
    }
)
_SCHEMAS: Schema = {
    "Error": _object({"error": _object({"code": _TEXT, "message": _TEXT})}),
    "Picture": _object({"picture": _TEXT, "width": _WHOLE, "height": _WHOLE, "faces": _WHOLE, "notes": _list(_TEXT)}),
    "Verification": _object(
        {**_ANSWERED, "prior": _NUMBER, "threshold": _MAYBE, "false_match_rate": _MAYBE, "mirror": _TEXT}
    ),
    "Explanation": _object(
        {
            "distance": _NUMBER,
            "threshold": _MAYBE,
            "same": {"type": ["boolean", "null"]},
            "in_words": _TEXT,
            "n_regions": _WHOLE,
            "n_spare": _WHOLE,
            "regions": _list(_REGION),
            "crop": _object({"width": _WHOLE, "height": _WHOLE, "margin": _list(_WHOLE)}),
        }
    ),
    "Answer": _object(
        {
            "hits": _list(_object({**_ENTRY, **_ANSWERED})),
            "threshold": _MAYBE,
            "prior": _NUMBER,
            "false_match": {"anyOf": [_ref("FalseMatchChance"), {"type": "null"}]},
            "false_match_in_words": _TEXT,
            "advice": _TEXT,
            "people": {**_WHOLE, "description": "labels among the entries, and entries without one"},
            "searched": _WHOLE,
            "computed": _WHOLE,
            "excluded": _WHOLE,
        }
    ),
    "FalseMatchChance": _object(
        {
            "n_people": _WHOLE,
            "n_entries": _WHOLE,
            "threshold": _NUMBER,
            "rate": {**_NUMBER, "description": "false match rate of one pair; at most this where not supported"},
            "by_people": {**_NUMBER, "description": "chance of any, where the entries of a person match together"},
            "by_entries": {**_NUMBER, "description": "chance of any, where each entry matches by itself"},
            "interval": {"type": ["array", "null"], "items": _NUMBER, "description": "of both, 95 %"},
            "supported": {"type": "boolean"},
        }
    ),
    "Entry": _object(_ENTRY),
    "Removal": _object({"ids": _list(_ID), "rows": _WHOLE, "journal": {"type": "boolean"}, "in_words": _list(_TEXT)}),
    "Relabelled": _object({"ids": _list(_ID), "label": _TEXT}),
    "Diagnosis": _object(
        {
            "records": _WHOLE,
            "labels": _WHOLE,
            "counts": {"type": "object"},
            **{kind: _list({"type": "object"}) for kind in ("duplicates", "same", "mixed", "outliers")},
            "not_split": _list(_TEXT),
        },
        more=True,
    ),
    "Info": _object(
        {
            "samekind": _TEXT,
            "model": {"type": "object"},
            "gallery": {"type": ["object", "null"]},
            "distribution": {"type": ["object", "null"]},
            "timings": {"type": "object"},
            "limits": _object({"upload_bytes": _WHOLE, "pixels": _WHOLE}),
        }
    ),
}
