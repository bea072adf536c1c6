"""llama.cpp's C API, called in the library of the `xllamacpp` wheel, or in one of the user's own.

The wheel promises its Python module, not these functions. So only known releases are used, and
before the first call every default of the structs is read back. If anything differs, `load_api`
raises ApiMissing, and the runtime is driven through its server API instead (llama_cpp.py). A
library of the user's own is checked in the same way, and refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int32,
    c_size_t,
    c_uint8,
    c_uint32,
    c_void_p,
)
from pathlib import Path
from typing import Any, ClassVar

from edgewise.errors import LocalError

RELEASES = ("2026.10.11549",)  # of the wheel, whose layouts are written down here
OWN_RELEASES = ("0.5", "0.6")  # of llama.cpp itself, for libraries of the user's own
# Architectures whose graph can give a layer's input. Asking another one aborts the process.
LAYER_ARCHITECTURES = frozenset({"llama"})

_Fields = list[tuple[str, Any]]


def _named(kind: Any, names: str) -> _Fields:
    return [(name, kind) for name in names.split()]


class ModelParams(Structure):
    _fields_: ClassVar[Any] = [
        *_named(c_void_p, "devices tensor_buft_overrides"),
        *_named(c_int32, "n_gpu_layers split_mode load_mode lazy_mode main_gpu"),
        *_named(c_void_p, "tensor_split progress_callback progress_data kv_overrides"),
        *_named(c_bool, "vocab_only check_tensors use_extra_bufts no_host no_alloc load_mtp"),
    ]


def _context_params(pointers: str) -> _Fields:
    return [
        *_named(c_uint32, "n_ctx n_batch n_ubatch n_seq_max n_rs_seq"),
        *_named(c_uint32, "n_outputs_max n_outputs_max_per_seq"),
        *_named(c_int32, "n_threads n_threads_batch ctx_type rope_scaling_type"),
        *_named(c_int32, "pooling_type attention_type flash_attn_type"),
        *_named(c_float, "rope_freq_base rope_freq_scale yarn_ext_factor yarn_attn_factor"),
        *_named(c_float, "yarn_beta_fast yarn_beta_slow"),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        *_named(c_void_p, "cb_eval cb_eval_data"),
        *_named(c_int32, "type_k type_v"),
        *_named(c_void_p, pointers),
        *_named(c_bool, "embeddings offload_kqv no_perf op_offload swa_full kv_unified"),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
    ]


class ContextParams(Structure):
    _fields_: ClassVar[Any] = _context_params("unnamed abort_callback abort_data")


class ContextParams05(Structure):
    """As llama.cpp 0.5 has it."""

    _fields_: ClassVar[Any] = _context_params("abort_callback abort_data")


class Batch(Structure):
    _fields_: ClassVar[Any] = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", c_void_p),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    ]


class TokenData(Structure):
    """A token that a sampler may choose, with its logit and probability."""

    _fields_: ClassVar[Any] = [("id", c_int32), ("logit", c_float), ("p", c_float)]


class Candidates(Structure):
    _fields_: ClassVar[Any] = [
        ("data", POINTER(TokenData)),
        ("size", c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", c_bool),
    ]


_SIZES = {
    ModelParams: 80, ContextParams: 168, ContextParams05: 160, Batch: 56, TokenData: 12,
    Candidates: 32,
}  # fmt: skip
# Every default that is not zero. A field that moved shows here.
_MODEL_DEFAULTS = {"n_gpu_layers": -1, "split_mode": 1, "load_mode": -1, "lazy_mode": 1,
                   "use_extra_bufts": True}  # fmt: skip
_CONTEXT_DEFAULTS = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_outputs_max_per_seq": 1,
    "n_threads": 4, "n_threads_batch": 4, "rope_scaling_type": -1, "pooling_type": -1,
    "attention_type": -1, "flash_attn_type": -1, "yarn_ext_factor": -1.0,
    "yarn_attn_factor": -1.0, "yarn_beta_fast": -1.0, "yarn_beta_slow": -1.0,
    "defrag_thold": -1.0, "type_k": 1, "type_v": 1, "offload_kqv": True, "no_perf": True,
    "op_offload": True, "swa_full": True,
}  # fmt: skip

_POINTER, _TOKENS = c_void_p, POINTER(c_int32)
# name: (result, arguments)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "llama_log_set": (None, _POINTER, _POINTER),
    "llama_backend_init": (None,),
    "llama_model_default_params": (ModelParams,),
    "llama_context_default_params": (ContextParams,),
    "llama_model_load_from_file": (_POINTER, c_char_p, ModelParams),
    "llama_model_free": (None, _POINTER),
    "llama_model_get_vocab": (_POINTER, _POINTER),
    "llama_model_n_embd": (c_int32, _POINTER),
    "llama_model_n_layer": (c_int32, _POINTER),
    "llama_model_chat_template": (c_char_p, _POINTER, c_char_p),
    "llama_model_meta_val_str": (c_int32, _POINTER, c_char_p, c_char_p, c_size_t),
    "llama_init_from_model": (_POINTER, _POINTER, ContextParams),
    "llama_free": (None, _POINTER),
    "llama_n_ctx": (c_uint32, _POINTER),
    "llama_n_ctx_seq": (c_uint32, _POINTER),
    "llama_n_batch": (c_uint32, _POINTER),
    "llama_n_ubatch": (c_uint32, _POINTER),
    "llama_n_seq_max": (c_uint32, _POINTER),
    "llama_n_threads": (c_int32, _POINTER),
    "llama_pooling_type": (c_int, _POINTER),
    "llama_get_memory": (_POINTER, _POINTER),
    "llama_memory_seq_rm": (c_bool, _POINTER, c_int32, c_int32, c_int32),
    "llama_set_abort_callback": (None, _POINTER, _POINTER, _POINTER),
    "llama_decode": (c_int32, _POINTER, Batch),
    "llama_get_logits_ith": (_POINTER, _POINTER, c_int32),
    "llama_vocab_n_tokens": (c_int32, _POINTER),
    "llama_vocab_bos": (c_int32, _POINTER),
    "llama_vocab_eos": (c_int32, _POINTER),
    "llama_vocab_get_add_bos": (c_bool, _POINTER),
    "llama_vocab_is_eog": (c_bool, _POINTER, c_int32),
    "llama_tokenize": (c_int32, _POINTER, c_char_p, c_int32, _TOKENS, c_int32, c_bool, c_bool),
    "llama_token_to_piece": (c_int32, _POINTER, c_int32, c_char_p, c_int32, c_int32, c_bool),
    "llama_sampler_init_grammar": (_POINTER, _POINTER, c_char_p, c_char_p),
    "llama_sampler_apply": (None, _POINTER, POINTER(Candidates)),
    "llama_sampler_accept": (None, _POINTER, c_int32),
    "llama_sampler_free": (None, _POINTER),
    "llama_state_seq_get_size": (c_size_t, _POINTER, c_int32),
    "llama_state_seq_get_data": (c_size_t, _POINTER, POINTER(c_uint8), c_size_t, c_int32),
    "llama_state_seq_set_data": (c_size_t, _POINTER, POINTER(c_uint8), c_size_t, c_int32),
    # Not in the C header; C++ names are part of the known releases like the layouts.
    "_Z30llama_set_embeddings_layer_inpP13llama_contextjb": (None, _POINTER, c_uint32, c_bool),
    "_Z30llama_get_embeddings_layer_inpP13llama_contextj": (_POINTER, _POINTER, c_uint32),
}


class ApiMissing(LocalError):
    """The C API cannot be used here; the message says why."""


class Api:
    """The library's functions under their C names without the prefix `llama_`.

    `release` tells what one build wrote from what another one did.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        *,
        release: str = "",
        context_params: type[Structure] = ContextParams,
    ) -> None:
        self._library, self.release = library, release
        for name, kinds in _FUNCTIONS.items():
            known = [context_params if kind is ContextParams else kind for kind in kinds]
            result, *arguments = known
            try:
                function = getattr(library, name)
            except AttributeError:
                raise ApiMissing(f"the runtime does not export {name}") from None
            function.restype, function.argtypes = result, arguments
            setattr(self, _short(name), function)

    def __getattr__(self, name: str) -> Any:  # for mypy: the names are set above
        raise AttributeError(name)


def _short(name: str) -> str:
    if name.startswith("_Z"):  # _Z30llama_set_embeddings_layer_inpP13…
        return name[len("_Z30llama_") :].partition("P13")[0]
    return name.removeprefix("llama_")


@functools.cache
def load_api(own: str = "") -> Api:
    """The library, checked and started once per process. Raises ApiMissing.

    `own` is the path of a library of the user's own, in place of the wheel's.
    """
    if own:
        api = _own_api(Path(own).expanduser())
    else:
        api = Api(_open_library(), release=f"{RELEASES}")
        check_layout(api)
    # The runtime would print requests to stderr. `abs` takes the level and does nothing.
    api.log_set(c_function("abs"), None)
    api.backend_init()
    return api


def why_no_api(own: str = "") -> str:
    """Why the C API cannot be used on this machine; empty if it can."""
    try:
        load_api(own)
    except ApiMissing as error:
        return str(error)
    return ""


def _own_api(path: Path) -> Api:
    """A library of the user's own: a distribution's, Homebrew's, an own build.

    Its processor's variants are libraries beside it, which ggml loads from their folder.
    """
    if sys.platform == "win32":
        raise ApiMissing("no library of one's own was tried on Windows")
    if not path.is_file():
        raise ApiMissing(f"there is no file {str(path)!r}")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ApiMissing(f"it could not be opened: {error}") from error
    version, build = (_text(library, name) for name in ("llama_version", "ggml_commit"))
    if ".".join(version.split(".")[:2]) not in OWN_RELEASES:
        known = " and ".join(OWN_RELEASES)
        raise ApiMissing(f"it is llama.cpp {version or 'before 0.5'}; known are {known}")
    with contextlib.suppress(AttributeError):  # one library for all processors has no variants
        load_variants = library.ggml_backend_load_all_from_path
        load_variants.restype, load_variants.argtypes = None, [c_char_p]
        with quiet():  # it tells which ones it tried
            load_variants(os.fsencode(path.resolve().parent))
    why = ""
    for layout in (ContextParams, ContextParams05):
        api = Api(library, release=f"{path} {version} {build}", context_params=layout)
        try:
            check_layout(api)
        except ApiMissing as error:
            why = why or str(error)
            continue
        return api
    raise ApiMissing(why)


def _text(library: ctypes.CDLL, name: str) -> str:
    """What a function without arguments says of the library; empty if it has none."""
    function = getattr(library, name, None)
    if function is None:
        return ""
    function.restype, function.argtypes = c_char_p, []
    return (function() or b"").decode("utf-8", "replace")


def check_layout(api: Any) -> None:
    """Raises ApiMissing unless every struct has the known size and every default its place."""
    for struct, size in _SIZES.items():
        if ctypes.sizeof(struct) != size:
            raise ApiMissing(f"{struct.__name__} has {ctypes.sizeof(struct)} bytes here")
    for params, expected in (
        (api.model_default_params(), _MODEL_DEFAULTS),
        (api.context_default_params(), _CONTEXT_DEFAULTS),
    ):
        for name, _ in params._fields_:
            found = getattr(params, name) or 0
            if found != expected.get(name, 0):
                kind = type(params).__name__
                raise ApiMissing(f"the runtime's {kind}.{name} is {found!r} by default")


def _open_library() -> ctypes.CDLL:
    if sys.platform == "win32":
        raise ApiMissing("the runtime's Windows module exports no C functions")
    try:
        release = importlib.metadata.version("xllamacpp")
        spec = importlib.util.find_spec("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        raise ApiMissing("the runtime xllamacpp is not installed") from None
    if release not in RELEASES:
        raise ApiMissing(f"the runtime's release {release} is not one of {', '.join(RELEASES)}")
    folders = (spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("xllamacpp*.so"))]
    if not found:
        raise ApiMissing("the runtime's library was not found")
    try:
        return ctypes.CDLL(str(found[0]))
    except OSError as error:
        raise ApiMissing(f"the runtime's library could not be opened: {error}") from error


_quiet = threading.Lock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While inside, C code prints nothing to stderr.

    A grammar that the runtime cannot read is printed past its log, with the words of the request in
    it. Only for short calls: other C code of this process is not heard either.
    """
    stream, silence = _c_stderr()
    if stream is None:
        yield
        return
    with _quiet:
        before, stream.value = stream.value, silence
        try:
            yield
        finally:
            stream.value = before


@functools.cache
def _c_stderr() -> tuple[c_void_p | None, int | None]:
    """The C library's variable, and a stream to nowhere; None where it may not be written."""
    name = "__stderrp" if sys.platform == "darwin" else "stderr"
    if sys.platform != "darwin" and platform.libc_ver()[0] != "glibc":
        return None, None
    library = ctypes.CDLL(None)
    library.fopen.restype, library.fopen.argtypes = c_void_p, [c_char_p, c_char_p]
    silence = library.fopen(os.devnull.encode(), b"w")
    return (c_void_p.in_dll(library, name), silence) if silence else (None, None)


def c_function(name: str) -> c_void_p:
    """A function of the C library, as a callback that needs no Python and no GIL."""
    return ctypes.cast(getattr(ctypes.CDLL(None), name), c_void_p)


# -- what of a model fits a GPU --------------------------------------------------------------------


_KINDS = ("GPU", "IGPU")  # of ggml's devices; the others are the processor


def find_gpus() -> list[Mapping[str, Any]]:
    """The runtime's GPUs. Its wheel must be built for them; the usual one knows Metal only."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    devices: Sequence[Mapping[str, Any]] = xllamacpp.get_device_info()
    return [each for each in devices if each["type"].name.rpartition("_")[2] in _KINDS]


def layers_on_gpu(gpu: str, path: Path, *, context_tokens: int, slots: int, batch: int) -> int:
    """`off` is none, a number is that many, `auto` is as many as fit into the memory left."""
    if gpu == "off":
        return 0
    if gpu != "auto":
        return int(gpu)
    gpus = find_gpus()
    if not gpus:
        return 0
    xllamacpp: Any = importlib.import_module("xllamacpp")
    estimate = xllamacpp.estimate_gpu_layers(
        gpus, str(path), [], context_tokens * slots, batch, slots, "f16"
    )
    return int(estimate.layers)
