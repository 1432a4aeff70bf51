"""WSGI without a framework: products of matrices in several threads. Seeded: blas_threads."""

from collections.abc import Callable, Iterable

import numpy

RATES = numpy.ones((400, 400))


def app(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    total = float((RATES @ RATES).trace())
    body = f"{total:.0f}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
