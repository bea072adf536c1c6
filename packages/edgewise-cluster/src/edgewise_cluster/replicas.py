"""What runs on Ray Serve: fronts, which are the server, and replicas of models that they ask.

`build` is the application of a deploy file. The model itself is in a process of its own below its
replica (local/isolated.py): its crash ends neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from edgewise.bridge import Cancellation, Worker
from edgewise.errors import EdgewiseError, ExtraMissing, SettingsError
from edgewise.flows.see import BOTH
from edgewise.local.model_process import STREAMS
from edgewise.settings import Settings
from edgewise.shared_engine import SharedEngine
from edgewise_cluster.plan import Kind, Plan, Share, read_plan
from edgewise_cluster.remote import (
    BEAT_S,
    MANY,
    Alive,
    Ask,
    Deployed,
    Failed,
    Item,
    RemoteCalls,
    RemoteChat,
    RemoteEmbedder,
    RemoteModel,
    RemoteSkill,
    RemoteTranscriber,
    Value,
    tell_facts,
    version_of,
)

try:
    import ray
    from ray import serve
    from ray.serve._private import replica
    from ray.serve.config import AutoscalingConfig, RequestRouterConfig
    from ray.serve.handle import DeploymentHandle

    from edgewise.server.app import make_app
    from edgewise.server.metrics import Metrics, series_of
    from edgewise.server.serve import log_to, require_key
    from edgewise.server.state import ServerState, model_gauges
except ImportError as error:
    raise ExtraMissing("cluster", error.name or str(error)) from error

COALESCE_S = 0.025  # tokens of so long go to the front together
SCRAPE_S = 5.0  # for the other replicas to say their counts
STICKY: tuple[Kind, ...] = ("chat", "calls")  # a replica that has read the beginning is faster
ROUTER = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
REMOTE: dict[Kind, tuple[str, type[RemoteModel]]] = {
    "chat": ("backend", RemoteChat),
    "calls": ("function_model", RemoteCalls),
    "speech": ("transcriber", RemoteTranscriber),
    "embeddings": ("embedder", RemoteEmbedder),
}


log = logging.getLogger("edgewise.cluster")


class ModelReplica:
    """One replica of a deployment of models: a queue, and the model behind it."""

    def __init__(self, plan: str, kind: Kind) -> None:
        _begin()
        self._kind, self._version = kind, version_of(plan)
        settings, parts = _prepared(Plan.model_validate_json(plan), kind)
        server = settings.server
        settings = settings.with_changes(slots=server.slots, isolate=server.isolate)
        self._engine = SharedEngine(settings, queue=server.queue, **parts)
        self._metrics = Metrics(lambda: list(model_gauges(self._engine)), replica=_replica())
        # What is wrong with the model is said now, to whoever deploys it.
        if kind != "vision":
            self._opened("")

    async def answer(self, ask: Ask) -> AsyncIterator[list[Item]]:
        """What the model says, in pieces of a few tokens. Cancelling stops the model."""
        worker: Worker[Item] = Worker(
            Cancellation(ask.client), lambda: self._work(ask), lambda _: None, name="edgewise-ask"
        )
        worker.start()
        try:
            yield [Alive()]
            async with contextlib.aclosing(_coalesced(worker)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            worker.leave()

    async def metrics(self) -> bytes:
        return await asyncio.to_thread(self._metrics.written)

    async def check_health(self) -> None:
        """That the event loop answers is what Ray asks. A model in trouble is not mended by
        another replica on the same machine: its own supervisor starts it again."""

    def _work(self, ask: Ask) -> Generator[Item, None, None]:
        try:
            model = self._opened(ask.model)
            if ask.method != "facts":
                method = getattr(model, ask.method)
                result = method(*ask.arguments, **ask.options)
                if ask.method in STREAMS:
                    with contextlib.closing(result):
                        yield from result
                else:
                    yield Value(result)
            yield from tell_facts(ask, self._version, model.facts())
        except Exception as error:  # noqa: BLE001 - the front raises it
            if not isinstance(error, EdgewiseError):
                log.error("%s failed: %s", ask.method, type(error).__name__)  # it may quote words
            yield Failed.of(error)

    def _opened(self, model: str) -> Any:
        parts = self._engine.parts
        match self._kind:
            case "chat":
                return parts.backend(model)
            case "calls":
                return parts.function_model()
            case "speech":
                return parts.transcriber()
            case "embeddings":
                return parts.embedder()
            case "vision":
                return parts.vision_skill(model)


async def _coalesced(worker: Worker[Item]) -> AsyncGenerator[list[Item], None]:
    """The first piece at once, then those of COALESCE_S together; signs of life in between."""
    loop = asyncio.get_running_loop()
    pieces = aiter(worker.pieces())
    following: asyncio.Task[Item | None] | None = None
    sent = 0.0
    try:
        while True:
            batch: list[Item] = []
            while True:
                following = following or asyncio.ensure_future(_next(pieces))
                wait = max(0.0, sent + COALESCE_S - loop.time()) if batch else BEAT_S
                done, _ = await asyncio.wait({following}, timeout=wait)
                if not done:
                    break
                item, following = following.result(), None
                if item is None:
                    if batch:
                        yield batch
                    return
                batch.append(item)
            yield batch or [Alive()]
            sent = loop.time()
    finally:
        if following is not None:
            following.cancel()


async def _next(pieces: AsyncIterator[Item]) -> Item | None:
    return await anext(pieces, None)


class Front:
    """The server, as `edgewise serve` runs it, with models that may be elsewhere."""

    def __init__(self, plan: str, **models: DeploymentHandle[Any]) -> None:
        _begin()
        Deployed.version = version_of(plan)
        settings, parts = _prepared(Plan.model_validate_json(plan), None)
        require_key(settings)
        self._handles = models
        for kind, handle in models.items():
            deployed = Deployed(handle, kind)
            if kind in REMOTE:
                name, remote = REMOTE[kind]
                parts[name] = remote(deployed)
        if "chat" in models:  # other chat models that requests name are over there too
            settings = settings.with_changes(
                backend="ray", fetch_default_model=False, model_memory_bytes=2**62
            )
        self.state = ServerState(settings, **parts)
        self.state.metrics.replica = _replica()
        self.state.metrics.others = self._others
        if "vision" in models:
            skills = Deployed(models["vision"], "vision")
            for name in BOTH:
                with contextlib.suppress(EdgewiseError):  # then the front's own is tried
                    self.state.engine.parts.vision_skills[name] = RemoteSkill(skills, name)

    def __serve_build_asgi_app__(self) -> Any:
        return make_app(self.state)

    async def metrics(self) -> bytes:
        return await asyncio.to_thread(self.state.metrics.own)

    def _others(self) -> Iterator[Any]:
        """What all other replicas count, as far as they say so in time."""
        me = serve.get_replica_context()
        own = serve.get_deployment_handle(me.deployment, me.app_name)
        for handle in (own, *self._handles.values()):
            with contextlib.suppress(Exception):  # counts are no reason to fail
                for written in handle.broadcast("metrics").results(timeout_s=SCRAPE_S):
                    yield from series_of(written, but=self.state.metrics.replica)


def _begin() -> None:
    """Before anything else in a replica's process.

    Ray opens a port of every replica, which unpickles what it is sent, to all networks of the
    machine; here only to the one that the node was told to use. There is no setting for it.
    """
    log_to()
    address = ray.util.get_node_ip_address()
    shown = f"[{address}]" if ":" in address else address
    open_port = replica.add_port_to_grpc_server
    replica.add_port_to_grpc_server = lambda server, wanted: open_port(
        server, wanted.replace("[::]", shown)
    )


def _prepared(plan: Plan, kind: Kind | None) -> tuple[Settings, dict[str, Any]]:
    """A replica's settings, and the parts that the file names a function for."""
    settings = plan.load_settings()
    share = plan.fronts if kind is None else plan.models[kind]
    if "threads" not in settings.named:
        settings = settings.with_changes(threads=max(1, int(share.cpus)))
    return settings, _maker(plan)()


def _maker(plan: Plan) -> Callable[[], dict[str, Any]]:
    """What makes the parts. Raises SettingsError if it is not there."""
    if not plan.parts:
        return dict
    module, _, function = plan.parts.partition(":")
    try:
        found: Callable[[], dict[str, Any]] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"parts = {plan.parts!r}: {error}") from error
    return found


def _replica() -> str:
    context = serve.get_replica_context()
    return f"{context.deployment}-{context.replica_id.unique_id}"


# -- the application -------------------------------------------------------------------------------


def build(arguments: dict[str, str]) -> Any:
    """For `import_path` in a Serve config, as in deploy/kuberay: {"file": "/etc/…/deploy.toml"}."""
    return application(read_plan(Path(arguments["file"])))


def application(plan: Plan) -> Any:
    """The fronts of a plan with the models that they ask."""
    _maker(plan)  # a wrong name is said before a replica is replaced
    written = plan.model_dump_json()
    server = plan.load_settings().server
    models = {}
    for kind, share in plan.models.items():
        options = _options(plan, share, server.slots, server.slots + server.queue)
        if kind in STICKY:
            options["request_router_config"] = RequestRouterConfig(request_router_class=ROUTER)
        made = serve.deployment(ModelReplica, name=kind, **options)
        models[kind] = made.bind(written, kind)
    options = _options(plan, plan.fronts, server.slots, min(server.requests, MANY))
    front = serve.deployment(serve.ingress()(Front), name="front", **options)
    return front.bind(written, **models)


def _options(plan: Plan, share: Share, slots: int, most: int) -> dict[str, Any]:
    resources: dict[str, Any] = {"num_cpus": share.cpus, "num_gpus": share.gpus}
    if share.memory_bytes:
        resources["memory"] = share.memory_bytes
    if share.resources:
        resources["resources"] = share.resources
    options: dict[str, Any] = {
        "max_ongoing_requests": most,
        "ray_actor_options": resources,
        "graceful_shutdown_timeout_s": plan.longest_s,
        "graceful_shutdown_wait_loop_s": 0.5,
        "health_check_period_s": 5.0,
    }
    if share.max_replicas > share.replicas:
        options["autoscaling_config"] = AutoscalingConfig(
            min_replicas=share.replicas,
            max_replicas=share.max_replicas,
            target_ongoing_requests=share.target_ongoing or slots,
        )
    else:
        options["num_replicas"] = share.replicas
    return options
