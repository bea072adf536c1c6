"""Writes a GGUF file as an ONNX graph: the same weights, in the operators of ONNX Runtime.

A matrix in Q8_0 or Q4_0 is what ONNX Runtime calls `MatMulNBits` with blocks of 32, so its bits are
copied: both compute (number - middle) · scale. Other quantisations are rounded to Q8_0 first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from edgewise.errors import StoreError
from edgewise.local.catalogue import Progress, sha256_of, silent
from edgewise.local.gguf import matrix_kinds_of

if TYPE_CHECKING:  # only `edgewise pull --engine onnx` loads these
    import numpy as np
    from gguf import GGUFReader, ReaderTensor
    from numpy.typing import NDArray

GRAPH = "model.onnx"
WEIGHTS = "model.onnx.data"
BLOCK = 32
# How a head is turned: neighbours together, or the first half with the second.
INTERLEAVED = {"llama": 1, "qwen2": 0}
_BITS = {"Q8_0": 8, "Q4_0": 4}
_COPIED = {8: "Q8_0", 2: "Q4_0"}  # by ggml's numbers
_EMBEDDING, _OUTPUT, _FACTORS = "token_embd.weight", "output.weight", "rope_freqs.weight"
_PAGE = 4096  # the runtime maps a tensor that begins a page, instead of reading it
_MICROSOFT = "com.microsoft"
_OPSETS = (("", 17), (_MICROSOFT, 1))
_IR_VERSION = 8


def write_graph(source: Path, folder: Path, progress: Progress = silent) -> str:
    """Write GRAPH and WEIGHTS into `folder`; the name of the graph. One tensor is in memory.

    Raises StoreError if the file is not a llama or qwen2 model that can be written exactly.
    """
    reader = open_gguf(source)
    shape = Shape(reader, source)
    with (folder / WEIGHTS).open("wb") as weights:
        graph = _Graph(shape, reader, weights, progress)
        facts = graph.build()
    # So that the graph's own hash is another one for other weights.
    facts["weights_sha256"] = sha256_of(folder / WEIGHTS, progress)
    graph.save(folder / GRAPH, facts)
    return GRAPH


def quantisation_after(source: Path, before: str) -> str:
    """What the weights are called after the conversion: as `before`, if no bit changes.

    Otherwise it is named after the quantisations that the matrices have then. `R` means that the
    name is the same and the bits are not: some matrices were rounded once more.
    """
    kinds = {_COPIED.get(kind, "") for kind in matrix_kinds_of(source)}
    if "" not in kinds:
        return before
    name = "+".join(sorted({kind or "Q8_0" for kind in kinds}))
    return f"{name}R" if name == before else name


def open_gguf(source: Path) -> GGUFReader:
    from gguf import GGUFReader  # noqa: PLC0415

    try:
        return GGUFReader(source)
    except Exception as error:  # of a damaged file the package raises whatever its arrays do
        raise StoreError(f"{str(source)!r} is not a readable GGUF file: {error}") from error


class Shape:
    """The numbers of the architecture, from the header."""

    def __init__(self, reader: GGUFReader, source: Path) -> None:
        fields = reader.fields
        self.family = str(fields["general.architecture"].contents())
        if self.family not in INTERLEAVED:
            known = " and ".join(INTERLEAVED)
            raise StoreError(
                f"{source.name} is a {self.family} model; only {known} models can be converted"
            )

        def number(name: str, default: float | None = None) -> Any:
            field = fields.get(f"{self.family}.{name}")
            if field is None and default is None:
                raise StoreError(f"{source.name} does not say its {self.family}.{name}")
            return default if field is None else field.contents()

        scaling = number("rope.scaling.type", "none")  # type: ignore[arg-type]
        if scaling != "none":
            raise StoreError(f"{source.name} stretches its context ({scaling}): not supported")
        self.context = int(number("context_length", 0))
        self.width = int(number("embedding_length"))
        self.layers = int(number("block_count"))
        self.heads = int(number("attention.head_count"))
        self.kept_heads = int(number("attention.head_count_kv", self.heads))
        self.head = int(number("attention.key_length", self.width // self.heads))
        self.tolerance = float(number("attention.layer_norm_rms_epsilon"))
        self.base = float(number("rope.freq_base", 10_000.0))
        if int(number("rope.dimension_count", self.head)) != self.head:
            raise StoreError(f"{source.name} turns only a part of each head: not supported")

    def frequencies(self, factors: NDArray[np.float32] | None) -> list[float]:
        """How far each pair of numbers in a head is turned from one token to the next."""
        plain = [self.base ** (-2 * pair / self.head) for pair in range(self.head // 2)]
        if factors is None:
            return plain
        return [each / float(factor) for each, factor in zip(plain, factors, strict=True)]


class _Graph:
    def __init__(
        self, shape: Shape, reader: GGUFReader, weights: BinaryIO, progress: Progress
    ) -> None:
        import onnx  # noqa: PLC0415

        self._onnx = onnx
        self._shape = shape
        self._tensors: dict[str, ReaderTensor] = {each.name: each for each in reader.tensors}
        self._unused = set(self._tensors)
        self._weights = weights
        self._progress = progress
        self._done, self._total = 0, sum(int(each.n_bytes) for each in reader.tensors)
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def build(self) -> dict[str, str]:
        """The whole graph: embedding, layers, and the logits of the rows that are asked for.

        The weights are written; what the loader must know besides is returned.
        """
        shape = self._shape
        stream = self._embed()
        normed = self._node(
            "SimplifiedLayerNormalization",
            [stream, self._plain("blk.0.attn_norm.weight")],
            domain="",
            **self._norm(),
        )
        for layer in range(shape.layers):
            last = layer + 1 == shape.layers
            after = "output_norm" if last else f"blk.{layer + 1}.attn_norm"
            attended = self._attend(layer, normed)
            normed, stream = self._add_and_norm(attended, stream, f"blk.{layer}.ffn_norm")
            normed, stream = self._add_and_norm(self._feed(layer, normed), stream, after)
        rows = self._node("Gather", [normed, "rows"], domain="", axis=1)
        output = _OUTPUT if _OUTPUT in self._tensors else _EMBEDDING
        self._node("Identity", [self._multiply(output, rows)], domain="", output="logits")
        factors = self._read_factors()
        if self._unused:
            raise StoreError(
                f"the model holds {min(self._unused)!r}, which the conversion does not know"
            )
        return {"frequencies": json.dumps(shape.frequencies(factors))}

    def _embed(self) -> str:
        """Rows of the embedding; the matrix of the output, where both are one."""
        matrix, scales, bits = self._matrix(_EMBEDDING, flat=True)
        inputs = [matrix, "tokens", scales]
        options: dict[str, Any] = {
            "bits": bits,
            "block_size": BLOCK,
            "gather_axis": 0,
            "quantize_axis": 1,
        }
        return self._node("GatherBlockQuantized", inputs, **options)

    def _attend(self, layer: int, normed: str) -> str:
        shape = self._shape
        turned = [self._multiply(f"blk.{layer}.attn_{each}.weight", normed) for each in "qkv"]
        past = [f"past.{layer}.key", f"past.{layer}.value"]
        name = f"blk.{layer}.attention"
        node = self._onnx.helper.make_node(
            "GroupQueryAttention",
            [*turned, *past, "last", "total", "cosines", "sines"],
            [name, f"present.{layer}.key", f"present.{layer}.value"],
            domain=_MICROSOFT,
            num_heads=shape.heads,
            kv_num_heads=shape.kept_heads,
            do_rotary=1,
            rotary_interleaved=INTERLEAVED[shape.family],
        )
        self._nodes.append(node)
        return self._multiply(f"blk.{layer}.attn_output.weight", name)

    def _feed(self, layer: int, normed: str) -> str:
        gate = self._multiply(f"blk.{layer}.ffn_gate.weight", normed)
        up = self._multiply(f"blk.{layer}.ffn_up.weight", normed)
        gated = self._node("QuickGelu", [gate], alpha=1.0)  # with 1.0 it is x · sigmoid(x)
        product = self._node("Mul", [gated, up], domain="")
        return self._multiply(f"blk.{layer}.ffn_down.weight", product)

    def _add_and_norm(self, new: str, stream: str, norm: str) -> tuple[str, str]:
        """The sum of both after a norm, and the sum itself."""
        name = f"{norm}.normed"
        outputs = [name, "", "", f"{norm}.stream"]
        node = self._onnx.helper.make_node(
            "SkipSimplifiedLayerNormalization",
            [new, stream, self._plain(f"{norm}.weight")],
            outputs,
            domain=_MICROSOFT,
            epsilon=self._shape.tolerance,
        )
        self._nodes.append(node)
        return name, outputs[-1]

    def _multiply(self, weight: str, values: str) -> str:
        matrix, scales, bits = self._matrix(weight)
        rows, columns = self._size(weight)
        inputs = [values, matrix, scales]
        bias = weight.removesuffix("weight") + "bias"
        if bias in self._tensors:
            inputs += ["", "", self._plain(bias)]
        # Level 4: numbers are rounded to 8 bits in blocks before they are multiplied, as llama.cpp
        # does.
        options: dict[str, Any] = {"K": columns, "N": rows, "bits": bits, "block_size": BLOCK}
        return self._node("MatMulNBits", inputs, accuracy_level=4, **options)

    def _node(
        self,
        kind: str,
        inputs: list[str],
        *,
        domain: str = _MICROSOFT,
        output: str = "",
        **options: Any,
    ) -> str:
        name = output or f"{kind}.{len(self._nodes)}"
        make = self._onnx.helper.make_node
        self._nodes.append(make(kind, inputs, [name], domain=domain, **options))
        return name

    def _norm(self) -> dict[str, Any]:
        return {"epsilon": self._shape.tolerance, "axis": -1, "stash_type": 1}

    def _size(self, weight: str) -> tuple[int, int]:
        columns, rows = (int(each) for each in self._take(weight).shape)
        return rows, columns

    def _take(self, name: str) -> ReaderTensor:
        if name not in self._tensors:
            raise StoreError(f"the model lacks {name!r}")
        if name in self._unused:
            self._unused.remove(name)
            self._done += int(self._tensors[name].n_bytes)
            self._progress(self._done, self._total, "converting")
        return self._tensors[name]

    def _plain(self, name: str) -> str:
        """A vector, as 32-bit numbers."""
        if name not in self._constants:
            self._constant(name, _values(self._take(name)))
        return name

    def _matrix(self, weight: str, *, flat: bool = False) -> tuple[str, str, int]:
        """The names of a matrix's numbers and scales, and its bits.

        `flat`: rows without blocks, as an embedding wants them; the same bytes of the file.
        """
        numbers, scales = f"{weight}.numbers", f"{weight}.scales"
        rows, columns = self._size(weight)
        blocks = columns // BLOCK
        tensor = self._take(weight)
        kind = tensor.tensor_type.name
        bits = _BITS.get(kind, 8)
        if numbers not in self._constants:
            if columns % BLOCK:
                raise StoreError(f"{weight!r} has rows of {columns}, which are no blocks of 32")
            packed, scale = split_blocks(tensor)
            self._constant(numbers, packed.reshape(rows, blocks, -1))
            self._constant(scales, scale.reshape(rows, blocks))
        if not flat:
            return numbers, scales, bits
        alias = f"{weight}.rows"
        self._constants[alias] = self._alias(self._constants[numbers], alias, (rows, -1))
        return alias, scales, bits

    def _read_factors(self) -> NDArray[np.float32] | None:
        return _values(self._take(_FACTORS)) if _FACTORS in self._tensors else None

    def _constant(self, name: str, values: Any) -> None:
        """Append an array to the file of weights, and point to it."""
        file = self._weights
        file.seek(-file.tell() % _PAGE, 1)
        start = file.tell()
        file.write(memoryview(values).cast("B"))
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        self._constants[name] = self._pointer(name, kind, values.shape, start, values.nbytes)

    def _pointer(
        self, name: str, kind: int, shape: tuple[int, ...], start: int, length: int
    ) -> Any:
        tensor = self._onnx.TensorProto(
            name=name,
            data_type=kind,
            dims=shape,
            data_location=self._onnx.TensorProto.EXTERNAL,
        )
        for key, value in (("location", WEIGHTS), ("offset", start), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def _alias(self, tensor: Any, name: str, shape: tuple[int, int]) -> Any:
        found = self._onnx.TensorProto()
        found.CopyFrom(tensor)
        found.name = name
        size = 1
        for each in tensor.dims:
            size *= each
        del found.dims[:]
        found.dims.extend((shape[0], size // shape[0]))
        return found

    def save(self, path: Path, facts: Mapping[str, str]) -> None:
        helper, kinds, shape = self._onnx.helper, self._onnx.TensorProto, self._shape
        cache = [1, shape.kept_heads, "context", shape.head]
        turned = ["positions", shape.head // 2]

        def value(name: str, kind: int, dimensions: list[Any]) -> Any:
            return helper.make_tensor_value_info(name, kind, dimensions)

        def caches(name: str) -> list[Any]:
            return [
                value(f"{name}.{layer}.{half}", kinds.FLOAT, cache)
                for layer in range(shape.layers)
                for half in ("key", "value")
            ]

        inputs = [
            value("tokens", kinds.INT64, [1, "read"]),
            value("rows", kinds.INT64, ["answers"]),
            value("last", kinds.INT32, [1]),
            value("total", kinds.INT32, []),
            value("cosines", kinds.FLOAT, turned),
            value("sines", kinds.FLOAT, turned),
            *caches("past"),
        ]
        words = self._size(_OUTPUT if _OUTPUT in self._tensors else _EMBEDDING)[0]
        outputs = [value("logits", kinds.FLOAT, [1, "answers", words]), *caches("present")]
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, shape.family, inputs, outputs, constants)
        opsets = [helper.make_opsetid(*each) for each in _OPSETS]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="edgewise"
        )
        helper.set_model_props(model, dict(facts))
        path.write_bytes(model.SerializeToString())


def split_blocks(tensor: ReaderTensor) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """The numbers of a matrix's blocks and their scales, as `MatMulNBits` reads them.

    A number in Q8_0 is signed; here 128 is the middle. In Q4_0 the middle is 8 in both, but the
    first half of a block lies in the lower halves of the bytes: here neighbours share a byte.
    """
    import numpy as np  # noqa: PLC0415
    from gguf import GGMLQuantizationType, quants  # noqa: PLC0415

    data, kind = tensor.data, tensor.tensor_type.name
    if kind not in _BITS:
        data, kind = quants.quantize(_values(tensor), GGMLQuantizationType.Q8_0), "Q8_0"
    blocks = data.reshape(-1, 2 + BLOCK * _BITS[kind] // 8)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    numbers = blocks[:, 2:]
    if kind == "Q8_0":
        return numbers ^ np.uint8(0x80), scales
    each = np.concatenate([numbers & 15, numbers >> 4], axis=1)
    return each[:, ::2] | each[:, 1::2] << np.uint8(4), scales


def _values(tensor: ReaderTensor) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415
    from gguf import quants  # noqa: PLC0415

    values = quants.dequantize(tensor.data, tensor.tensor_type)
    return np.ascontiguousarray(values, dtype=np.float32)
