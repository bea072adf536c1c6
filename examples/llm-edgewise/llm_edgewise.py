"""A plug-in for `llm`: the models of a running edgewise server.

    llm install ./llm-edgewise
    llm -m edgewise "What is the capital of France?"
    llm -m edgewise -o policy local_only "…"

`llm logs --json` has the decision behind each answer under `response_json`. The server's address is
`http://127.0.0.1:8484`, or what `llm keys set edgewise-url` says; its key is that of
`llm keys set edgewise`, where it asks for one.
"""

from collections.abc import Iterator
from typing import Any

import llm
import openai
from pydantic import Field

NAMES = {
    "edgewise": "auto",
    "edgewise-local": "local",
    "edgewise-cloud": "cloud",
}


@llm.hookimpl
def register_models(register: Any) -> None:
    for name, model in NAMES.items():
        register(Edgewise(name, model))


class Edgewise(llm.Model):
    can_stream = True

    class Options(llm.Options):
        policy: str | None = Field(default=None, description="prefer_local, local_only, …")
        privacy: str | None = Field(default=None, description="private: never leaves the device")
        threshold: float | None = Field(default=None, ge=0, le=1)
        max_tokens: int = Field(default=256, ge=1)

    def __init__(self, model_id: str, model: str) -> None:
        self.model_id = model_id
        self.model = model

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        url = llm.get_key(alias="edgewise-url") or "http://127.0.0.1:8484"
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=llm.get_key(alias="edgewise") or "any")
        routing = {
            name: str(value)
            for name in ("policy", "privacy", "threshold")
            if (value := getattr(prompt.options, name)) is not None
        }
        chunks = client.chat.completions.create(
            model=self.model,
            messages=_messages(prompt, conversation),
            max_tokens=prompt.options.max_tokens,
            metadata=routing,
            stream=True,
        )
        for chunk in chunks:
            if decision := getattr(chunk, "edgewise", None):
                response.response_json = {"edgewise": decision}
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


def _messages(prompt: Any, conversation: Any) -> list[dict[str, str]]:
    found = []
    for before in conversation.responses if conversation else ():
        found.append({"role": "user", "content": before.prompt.prompt})
        found.append({"role": "assistant", "content": before.text()})
    if prompt.system:
        found.insert(0, {"role": "system", "content": prompt.system})
    return [*found, {"role": "user", "content": prompt.prompt}]
