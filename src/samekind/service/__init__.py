"""`samekind serve`: a page and a JSON API over a model and a gallery, on this machine.

    answers        what verify and search say, for the commands and the service alike
    pictures       uploaded pictures as crops and codes, in memory of a bounded size
    engine         verify, explain, search, add, remove, info: all that the API does, without HTTP
    distribution   distances of pairs of both kinds, for the page's drawing
    lanes, bodies  bounded work and bounded uploads: what is too much is refused (429), not queued
    guard          who may ask: Host, Origin, token; headers of every answer
    fields         what JSON bodies may hold
    api, openapi   the routes, and their description
    server         runs until SIGTERM or SIGINT, and ends cleanly
    page/          one HTML, one CSS, one ES module

Only `guard`, `bodies`, `api` and `server` import the web packages (extra `serve`).
"""
