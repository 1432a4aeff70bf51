"""The URL paths of graphene's own view, which is sync."""

from __future__ import annotations

import graphene
from django.urls import re_path
from graphene_django.views import GraphQLView

from offload.serving.frameworks.octopus import views
from offload.serving.frameworks.octopus.graphene_types import Query

SCHEMA = graphene.Schema(Query)

urlpatterns = [
    re_path("^graphql/$", GraphQLView.as_view(schema=SCHEMA)),
    re_path("", views.sync_view),
]
