"""What is known of a cloud provider: one frozen row, so that most providers need no code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgewise.types.messages import Task

Protocol = Literal["openai", "gemini", "anthropic", "cactus_cloud"]
OutputLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraits:
    """What the models whose names begin with `prefix` refuse or need.

    Reasoning spends `max_tokens` before a word of the answer, and the cloud is asked here for
    short answers the device was unsure of; so it is turned off wherever the model lets us.

    temperature       False: the model answers 400 to any temperature, so none is sent and its
                      answers are not reproducible. True: always sent, 0 included.
    reasoning_effort  sent as it stands (OpenAI's protocol); "" sends none
    thinking          sent as `thinking.type` (Anthropic's and DeepSeek's); "" sends none
    languages         True: takes a list of likely languages when it transcribes, and refuses one
    """

    prefix: str
    temperature: bool = True
    reasoning_effort: str = ""
    thinking: str = ""
    languages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. `key_names` are the environment variables its key may stand in, best first.

    prices_as         its id in the price list, where that differs from `name`
    prices_published  False: it publishes no price; the model maker's price stands in
    free              it runs on hardware the user pays for anyway: tokens cost nothing
    output_limit      how its servers spell "at most this many tokens"
    seed_field        how they spell the seed; "" where they refuse one
    usage_on_request  False: refuses `stream_options`, and sends usage unasked
    short_tool_ids    accepts only ids of nine letters and digits
    models            first matching prefix wins
    speech_model      what transcribes; "": it does not
    embedding_model   what embeds; "": it does not
    least_audio_s     the shortest sound it charges for: shorter ones cost as much
    speech_prompt     False: refuses the words before as a hint when it transcribes
    any_language      what it must be told to find out the language; "": it does so unasked
    image_side        pixels beyond which it scales a picture down itself: more is never sent
    image_bytes       the largest picture file it takes
    """

    name: str
    protocol: Protocol
    base_url: str
    default_model: str
    description: str
    key_names: tuple[str, ...] = ()
    needs_key: bool = True
    prices_as: str = ""
    prices_published: bool = True
    free: bool = False
    output_limit: OutputLimit = "max_tokens"
    seed_field: str = "seed"
    usage_on_request: bool = True
    short_tool_ids: bool = False
    models: tuple[ModelTraits, ...] = ()
    speech_model: str = ""
    embedding_model: str = ""
    least_audio_s: float = 0.0
    speech_prompt: bool = True
    any_language: str = ""
    image_side: int = 2048
    image_bytes: int = 10_000_000

    def model_for(self, task: Task) -> str:
        """The model that is asked for a task unless the user names one; "" where there is none."""
        special = {"transcribe": self.speech_model, "embed": self.embedding_model}
        return special.get(task, self.default_model)

    def traits(self, model: str) -> ModelTraits:
        """Of an unknown model: nothing special, except at Anthropic (see that row)."""
        matching = (traits for traits in self.models if model.startswith(traits.prefix))
        return next(matching, ModelTraits(prefix=""))
