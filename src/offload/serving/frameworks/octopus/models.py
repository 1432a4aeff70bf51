"""The models of the octopus database; `database` creates its tables."""

from __future__ import annotations

from django.db import models


class User(models.Model):
    """An owner of octopuses."""

    name = models.TextField()

    class Meta:
        """Its table."""

        managed = False
        db_table = "user"


class OctopusType(models.Model):
    """One of 10 octopus types."""

    name = models.TextField()

    class Meta:
        """Its table."""

        managed = False
        db_table = "octopus_type"


class SeaFood(models.Model):
    """One of 70 kinds of food."""

    name = models.TextField()

    class Meta:
        """Its table."""

        managed = False
        db_table = "sea_food"


class Octopus(models.Model):
    """One of a million octopuses."""

    name = models.TextField()
    weight = models.IntegerField()
    octopus_type = models.ForeignKey(OctopusType, models.CASCADE)
    user = models.ForeignKey(User, models.CASCADE)
    eats = models.ManyToManyField(SeaFood, db_table="octopus_eats")

    class Meta:
        """Its table."""

        managed = False
        db_table = "octopus"


def octopuses(first: int, joined: bool = True) -> models.QuerySet[Octopus]:
    """Query the first octopuses; without `joined` the type of each needs another query."""
    found = Octopus.objects.order_by("id")
    return (found.select_related("octopus_type") if joined else found)[:first]
