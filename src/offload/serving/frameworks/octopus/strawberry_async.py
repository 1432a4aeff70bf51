"""The URL paths of Strawberry's async view, with the types of strawberry-django."""

from __future__ import annotations

import strawberry
import strawberry_django
from django.urls import re_path
from strawberry.django.views import AsyncGraphQLView

from offload.serving.frameworks.octopus import models, views


@strawberry_django.type(models.OctopusType)
class OctopusType:
    """A type of octopus."""

    id: strawberry.auto
    name: strawberry.auto


@strawberry_django.type(models.Octopus)
class Octopus:
    """An octopus with its type."""

    id: strawberry.auto
    name: strawberry.auto
    octopus_type: OctopusType
    weight: strawberry.auto


@strawberry.type
class Query:
    """The query of the async view."""

    @strawberry_django.field
    def octopuses(self, first: int = 10) -> list[Octopus]:
        """Return a query set; strawberry-django evaluates it in a thread."""
        found: list[Octopus] = models.octopuses(first)
        return found


SCHEMA = strawberry.Schema(Query)

urlpatterns = [
    re_path("^graphql/$", AsyncGraphQLView.as_view(schema=SCHEMA)),
    re_path("", views.async_view),
]
