"""One view of Django."""

from django.http import HttpRequest, HttpResponse
from django.urls import path


def quote(request: HttpRequest, number: int) -> HttpResponse:
    return HttpResponse(f"quote {number}")


urlpatterns = [path("quote/<int:number>", quote)]
