"""The GraphQL types for graphene, with a sync and an async query."""

from __future__ import annotations

from typing import Any

import graphene
from graphene_django import DjangoObjectType

from offload.serving.frameworks.octopus import models


class OctopusType(DjangoObjectType):
    """A type of octopus."""

    class Meta:
        """Its fields."""

        model = models.OctopusType
        fields = ("id", "name")


class Octopus(DjangoObjectType):
    """An octopus with its type."""

    class Meta:
        """Its fields."""

        model = models.Octopus
        fields = ("id", "name", "octopus_type", "weight")


class Query(graphene.ObjectType):
    """The query of the sync view; without `joined` each octopus fetches its type separately."""

    octopuses = graphene.List(
        Octopus,
        first=graphene.Int(default_value=10),
        joined=graphene.Boolean(default_value=True),
    )

    def resolve_octopuses(self, info: Any, first: int, joined: bool) -> Any:
        """Return a query set, which is evaluated lazily."""
        return models.octopuses(first, joined)


class AsyncQuery(graphene.ObjectType):
    """The query of the async view, which cannot fetch each type separately."""

    octopuses = graphene.List(Octopus, first=graphene.Int(default_value=10))

    async def resolve_octopuses(self, info: Any, first: int) -> Any:
        """Await the rows; Django fetches them in a thread."""
        return [octopus async for octopus in models.octopuses(first)]
