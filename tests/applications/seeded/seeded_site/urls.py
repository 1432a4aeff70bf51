"""A view that awaits, and one that waits in its thread."""

import asyncio
import time

from django.http import HttpRequest, HttpResponse
from django.urls import path


async def awaits(request: HttpRequest, number: int) -> HttpResponse:
    await asyncio.sleep(0.02)
    return HttpResponse(f"quote {number}")


def waits(request: HttpRequest, number: int) -> HttpResponse:
    time.sleep(0.02)
    return HttpResponse(f"quote {number}")


urlpatterns = [path("awaits/<int:number>", awaits), path("waits/<int:number>", waits)]
