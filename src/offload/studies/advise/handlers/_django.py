"""Parts of the programs for Django: a whole project in one module."""

from __future__ import annotations

PACKAGE = "django"
SETTINGS = """\
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    LOGGING_CONFIG=None,  # so that errors are logged on stderr
    ROOT_URLCONF=__name__,
)"""
URLS = 'urlpatterns = [path("", answer)]'
IMPORTS = (
    "from django.conf import settings",
    "from django.http import HttpResponse",
    "from django.urls import path",
)
RESPONSE = 'return HttpResponse(body or b"", content_type="{media_type}")'
