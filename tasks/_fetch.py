"""One fetch, blocking or awaited, over a new connection."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import requests
import urllib3
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from tornado.simple_httpclient import HTTPTimeoutError

CONNECT_TIMEOUT = 3.0  # seconds
TIMEOUT = 10.0  # s: for the whole fetch if awaited, between two bytes if blocking
NO_STATUS = 599  # tornado's code for a timeout or a closed connection


class FetchFailed(Exception):
    """A host was not reached or returned an error status; `__cause__` is the client's error."""


def fetch(url: str, ca: str | None = None) -> bytes:
    """Fetch a URL with requests.get; the certificate is verified with `ca` or the public CAs.

    Raise FetchFailed.
    """
    timeout = (CONNECT_TIMEOUT, TIMEOUT)
    try:
        response = requests.get(url, timeout=timeout, verify=True if ca is None else ca)
        response.raise_for_status()
    except OSError as error:  # the base class of every error of requests
        raise _failed(url, error) from error
    return response.content


async def afetch(url: str, ca: str | None = None) -> bytes:
    """Fetch a URL on this event loop; the certificate is verified with `ca` or the public CAs.

    Raise FetchFailed.
    """
    client = AsyncHTTPClient(force_instance=True)
    try:
        response = await client.fetch(
            url, ca_certs=ca, connect_timeout=CONNECT_TIMEOUT, request_timeout=TIMEOUT
        )
    except (HTTPClientError, OSError) as error:
        raise _failed(url, error) from error
    finally:
        client.close()
    return response.body


def _failed(url: str, error: Exception) -> FetchFailed:
    """Describe an error of either client by its innermost cause, without the URL's password."""
    host = urlsplit(url).netloc.rpartition("@")[2] or repr(url)
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return FetchFailed(f"{host} returned status {error.response.status_code}")
    if isinstance(error, HTTPClientError) and error.code != NO_STATUS:
        return FetchFailed(f"{host} returned status {error.code}")
    through = " through the proxy" if isinstance(error, requests.exceptions.ProxyError) else ""
    return FetchFailed(f"{host} could not be reached{through}: {_reason(_innermost(error))}")


def _innermost(error: BaseException) -> BaseException:
    """Unwrap an error of requests or urllib3, which store it as a cause or an argument."""
    while isinstance(error, requests.RequestException | urllib3.exceptions.HTTPError):
        wrapped = [arg for arg in error.args if isinstance(arg, BaseException)]
        inner = error.__cause__ or error.__context__ or (wrapped[-1] if wrapped else None)
        if inner is None:
            break
        error = inner
    return error


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError | HTTPTimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed ({error.verify_message})"
    if not isinstance(error, OSError) or not error.strerror:
        return f"{type(error).__name__}: {error}"
    if isinstance(error, socket.gaierror):
        return f"name resolution failed ({error.strerror})"
    return error.strerror[0].lower() + error.strerror[1:]
