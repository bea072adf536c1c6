"""Each protocol is told what JSON an answer must be, in its own form."""

from __future__ import annotations

import json

from edgewise.cloud import anthropic, cactus_cloud, gemini, openai
from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import PROVIDERS
from edgewise.types.messages import Message, Request, ResponseFormat

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
QUESTION = (Message("user", "Name a city."),)
PLAIN = Request(messages=QUESTION)
HELD = Request(messages=QUESTION, response_format=ResponseFormat(SCHEMA, "city", strict=True))
ANY_OBJECT = Request(messages=QUESTION, response_format=ResponseFormat())


def test_openai_has_a_field_for_both() -> None:
    def sent(request: Request) -> object:
        return openai.payload(request, "gpt-6-luna", PROVIDERS["openai"]).get("response_format")

    named = {"name": "city", "schema": SCHEMA, "strict": True}
    assert sent(HELD) == {"type": "json_schema", "json_schema": named}
    assert sent(ANY_OBJECT) == {"type": "json_object"}
    assert sent(PLAIN) is None


def test_anthropic_has_a_field_for_schemas_and_hears_the_rest_in_words() -> None:
    def sent(request: Request) -> tuple[object, object]:
        body = anthropic.payload(request, "claude-haiku-5-5", PROVIDERS["anthropic"])
        return body.get("output_config"), body.get("system")

    assert sent(HELD) == ({"format": {"type": "json_schema", "schema": SCHEMA}}, None)
    assert sent(ANY_OBJECT) == (None, "Answer with one JSON object and nothing else.")
    assert sent(PLAIN) == (None, None)


def test_gemini_has_fields_for_both() -> None:
    def sent(request: Request) -> tuple[object, object]:
        config = gemini.payload(request, "id")["config"]
        return config.get("response_mime_type"), config.get("response_json_schema")

    assert sent(HELD) == ("application/json", SCHEMA)
    assert sent(ANY_OBJECT) == ("application/json", None)
    assert sent(PLAIN) == (None, None)


def test_cactus_cloud_hears_it_in_words() -> None:
    config = ProviderConfig(name="cactus_cloud", protocol="cactus_cloud", model="any")

    def sent(request: Request) -> str:
        return str(cactus_cloud.payload(request, config)[1]["text"])

    assert sent(HELD).endswith(f"JSON Schema: {json.dumps(SCHEMA)}")
    assert sent(ANY_OBJECT).endswith("[answer] Answer with one JSON object and nothing else.")
    assert sent(PLAIN) == "Name a city."
