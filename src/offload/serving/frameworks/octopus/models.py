"""The models of the octopus database, whose tables `database` makes."""

from __future__ import annotations

from django.db import models


class User(models.Model):
    """Who keeps octopuses."""

    name = models.TextField()

    class Meta:
        """Its table."""

        managed = False
        db_table = "user"


class OctopusType(models.Model):
    """One of ten."""

    name = models.TextField()

    class Meta:
        """Its table."""

        managed = False
        db_table = "octopus_type"


class SeaFood(models.Model):
    """One of seventy."""

    name = models.TextField()

    class Meta:
        """Its table."""

        managed = False
        db_table = "sea_food"


class Octopus(models.Model):
    """One of a million."""

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
    """Query the first ones; `joined` with their types, which are else a query each."""
    found = Octopus.objects.order_by("id")
    return (found.select_related("octopus_type") if joined else found)[:first]
