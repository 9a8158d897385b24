"""What the service refuses."""

from __future__ import annotations


class Refusal(Exception):
    """A request that is answered with a status of 4xx (or 503), a code for programs and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = headers or {}

    def to_json(self) -> dict[str, dict[str, str]]:
        return {"error": {"code": self.code, "message": self.message}}


def busy() -> Refusal:
    return Refusal(
        429, "busy", "The service is busy: try again in a second.", headers={"Retry-After": "1"}
    )  # fmt: skip


def ending() -> Refusal:
    return Refusal(503, "ending", "The service is ending.")
