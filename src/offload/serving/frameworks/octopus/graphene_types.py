"""The GraphQL types of graphene, and what it is asked for, awaited and not."""

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
    """What a sync view answers; without `joined` each octopus asks for its type by itself."""

    octopuses = graphene.List(
        Octopus,
        first=graphene.Int(default_value=10),
        joined=graphene.Boolean(default_value=True),
    )

    def resolve_octopuses(self, info: Any, first: int, joined: bool) -> Any:
        """Give a query, which is made when its rows are asked for."""
        return models.octopuses(first, joined)


class AsyncQuery(graphene.ObjectType):
    """What an async view answers; a query for each octopus it cannot make."""

    octopuses = graphene.List(Octopus, first=graphene.Int(default_value=10))

    async def resolve_octopuses(self, info: Any, first: int) -> Any:
        """Await the rows; Django asks for them in a thread."""
        return [octopus async for octopus in models.octopuses(first)]
