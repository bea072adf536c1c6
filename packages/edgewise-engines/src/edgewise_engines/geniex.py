"""GenieX (once Nexa) in this process, over its own Python binding: `PATH@geniex`, `NAME@geniex`.

It runs GGUF files and Qualcomm's bundles on a Snapdragon's CPU, GPU or NPU. Its binding tells no
log-probabilities while it writes, and has no tokenizer to ask for them afterwards. So its answers
are not judged. Tested on a stub of the native library, not run on hardware.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from typing_extensions import override

from edgewise.errors import ContextExceeded, GenerationFailed, ModelNotFound
from edgewise.extras import pip_command
from edgewise.grammar.answers import compile_answer
from edgewise.local.backend import DeviceFacts, LocalRuntime
from edgewise.local.chat_prompt import plain_turns, with_system
from edgewise.local.gguf import chat_template_of
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, FinishReason
from edgewise_engines.native import NativeModel, Run

ENDS: dict[str, FinishReason] = {"length": "length", "context_length": "length"}


def open_backend(
    model: InstalledModel, *, threads: int, context_tokens: int, gpu: str = "auto"
) -> GeniexModel:
    """Raises ModelNotFound without the binding, its library or the model."""
    try:
        geniex: Any = import_module("geniex")  # an extra, without types
    except ImportError as error:
        how = pip_command("geniex==0.9.3")
        raise ModelNotFound(f"GenieX is not installed: {how}") from error
    try:
        geniex.init()
    except (OSError, geniex.GenieXError, AttributeError) as error:
        words = str(error).strip().split("\n", 1)[0]
        raise ModelNotFound(f"the native library of GenieX does not load: {words}") from error
    name = os.fspath(model.path)
    if not model.path.exists():  # a name of its own store; it must not download anything
        name = model.path.as_posix()
        try:
            geniex.model_manager.get_paths(name)
        except (OSError, geniex.GenieXError) as error:
            raise ModelNotFound(f"GenieX has no {name!r}: run `geniex-py pull {name}`") from error
    return GeniexModel(geniex, model, name, threads, context_tokens, gpu)


class GeniexModel(NativeModel):
    """One model of GenieX."""

    def __init__(
        self,
        binding: Any,
        model: InstalledModel,
        name: str,
        threads: int,
        context_tokens: int,
        gpu: str,
    ) -> None:
        super().__init__(
            DeviceFacts(
                backend="geniex",
                model=model.name,
                quantisation=model.quantisation,
                context_tokens=context_tokens,
                schemas=True,
                evidence=False,
            )
        )
        self._binding = binding
        self._model = model
        self._name = name
        self._options = {"n_ctx": context_tokens, "n_threads": threads, **_placed(gpu)}

    @override
    def _load(self) -> Any:
        model = self._binding.AutoModelForCausalLM.from_pretrained(self._name, **self._options)
        if isinstance(model, self._binding.GenieXVLM):
            model.close()
            raise GenerationFailed(f"{self._facts.model} is a model for pictures: not supported")
        return model

    @override
    def _free(self, handle: Any) -> None:
        handle.close()

    @override
    def _stop(self, handle: Any, run: Run) -> None:
        if run.note is not None:
            run.note.cancel()  # at the next token

    @override
    def _answer(self, handle: Any, request: Request, already: str, run: Run) -> tuple[str, Finish]:
        handle.reset()  # nothing of the request before, which may have been another's
        prompt = self._prompt(handle, request) + already
        streamer = run.note = handle.generate(
            prompt,
            stream=True,
            max_new_tokens=request.device_tokens,
            temperature=request.temperature,  # 0 means its default, so one candidate is left
            top_k=1 if request.temperature == 0 else 0,
            seed=request.seed,
            stop=list(request.stop),
            grammar=_grammar(request),
        )
        if run.stopped.is_set():  # called off before there was anything to cancel
            streamer.cancel()
        pieces = []
        for piece in streamer:
            pieces.append(piece)
            run.say(piece)
        output = streamer.output
        profile = output.profile
        reason = profile.stop_reason or "stop"
        if reason == "context_length" and not pieces:
            raise ContextExceeded(
                max(profile.prompt_tokens, self._facts.context_tokens + 1),
                self._facts.context_tokens,
                counted=profile.prompt_tokens > 0,
            )
        # Without its thoughts the text may differ from the pieces; these were said, so they stand.
        end = Finish(
            ENDS.get(reason, "stop"),
            input_tokens=profile.prompt_tokens,
            output_tokens=profile.generated_tokens or len(pieces),
            estimated=not profile.generated_tokens,
        )
        return output.text if output.thinking is None else "".join(pieces), end

    def _prompt(self, handle: Any, request: Request) -> str:
        system = self._model.row.default_system if self._model.row else ""
        turns = with_system(plain_turns(request.messages), system)
        prompt: str = handle.tokenizer.apply_chat_template(
            turns, enable_thinking=False if self._thinks(handle) else None
        )
        return prompt

    def _thinks(self, handle: Any) -> bool:
        """Whether the template can leave thinking out. Others must not be told to."""
        if self._model.path.suffix == ".gguf":  # the binding does not look into one
            return "enable_thinking" in chat_template_of(self._model.path)
        return self._name != os.fspath(self._model.path) and bool(handle.supports_thinking)


def _grammar(request: Request) -> str | None:
    wanted = request.response_format
    return None if wanted is None else compile_answer(wanted.schema)


def _placed(gpu: str) -> dict[str, Any]:
    """Where it computes: the setting `gpu` in the binding's words."""
    if gpu == "off":
        return {"device_map": "cpu"}
    return {"device_map": "gpu", "n_gpu_layers": int(gpu)} if gpu.isdigit() else {}


RUNTIME = LocalRuntime(
    title="GenieX",
    package="geniex",
)
