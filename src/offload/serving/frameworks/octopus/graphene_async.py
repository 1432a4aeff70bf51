"""The URL paths of an async view for graphene, which provides only a sync view."""

from __future__ import annotations

import json

import graphene
from django.http import HttpRequest, JsonResponse
from django.urls import re_path

from offload.serving.frameworks.octopus import views
from offload.serving.frameworks.octopus.graphene_types import AsyncQuery

SCHEMA = graphene.Schema(AsyncQuery)


async def graphql(request: HttpRequest) -> JsonResponse:
    """Execute a query asynchronously."""
    request_body = json.loads(request.body)
    result = await SCHEMA.execute_async(request_body["query"])
    return JsonResponse(result.formatted)


urlpatterns = [re_path("^graphql/$", graphql), re_path("", views.async_view)]
