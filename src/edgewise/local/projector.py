"""The second file of a model that sees: what turns a picture into tokens for the first."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.errors import ModelNotFound
from edgewise.local.model_store import InstalledModel
from edgewise.local.plain_turns import Turn
from edgewise.local.vision_models import PROJECTOR
from edgewise.types.messages import Image, Message


def with_projector(model: InstalledModel, path: str) -> InstalledModel:
    """The model with a projector of the user's, or with the one that its row came with."""
    if path:
        given = Path(path).expanduser()
        if not given.is_file():
            raise ModelNotFound(f"there is no projector file {str(given)!r}")
        return replace(model, projector=given)
    beside = model.path.parent / PROJECTOR
    named = model.row is not None and any(file.name == PROJECTOR for file in model.row.beside)
    return replace(model, projector=beside) if named else model


def pictured_turns(turns: Sequence[Turn], messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Turns with the pictures of the user's messages in front of their words."""
    asked = [message for message in messages if message.role == "user"]
    pictured: list[dict[str, Any]] = []
    number = 0
    for turn in turns:
        content: Any = turn["content"]
        if turn["role"] == "user" and number < len(asked):
            pictures = [_part(image) for image in asked[number].images]
            words = [{"type": "text", "text": content}] if content else []
            content = [*pictures, *words] if pictures else content
            number += 1
        pictured.append({"role": turn["role"], "content": content})
    return pictured


def _part(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}
