"""The content of a response is what its suite extracts from it."""

from __future__ import annotations

import json

import pytest

from offload.engine.load_phase import comparable_content
from offload.errors import StartError


def test_a_suite_without_extract_and_no_suite_have_none() -> None:
    assert [comparable_content(suite, b"x") for suite in (None, "tornado", "measure")] == [None] * 3


def test_the_same_text_in_two_answers_is_the_same_content() -> None:
    plain, graphql = b'{"hello": "x"}', b'{"data": {"wrapped": "x"}}'
    assert comparable_content("fastapi_strawberry", plain) == "x"
    assert comparable_content("fastapi_strawberry", graphql) == "x"


def test_of_a_long_one_the_head_and_a_hash_are_kept() -> None:
    one, other = (json.dumps({"hello": "x" * 5000 + end}).encode() for end in "ab")
    found = comparable_content("fastapi_strawberry", one)
    assert found is not None
    assert len(found) < 250
    assert found != comparable_content("fastapi_strawberry", other)


def test_an_error_that_was_answered_with_200_is_no_content() -> None:
    body = b'{"data": null, "errors": [{"message": "it raised"}]}'
    with pytest.raises(StartError, match="it raised"):
        comparable_content("fastapi_strawberry", body)
