"""`edgewise bench`: one file per command; what loads much loads inside the commands."""

from __future__ import annotations

import click

from edgewise_bench.commands.act import act
from edgewise_bench.commands.bfcl import bfcl
from edgewise_bench.commands.calibration import calibration
from edgewise_bench.commands.caller import caller
from edgewise_bench.commands.clients import clients
from edgewise_bench.commands.conversations import conversations
from edgewise_bench.commands.cost import cost
from edgewise_bench.commands.decide import decide
from edgewise_bench.commands.embed import embed
from edgewise_bench.commands.engines import engines
from edgewise_bench.commands.find import find
from edgewise_bench.commands.forward import forward
from edgewise_bench.commands.hostile import hostile
from edgewise_bench.commands.isolate import isolate
from edgewise_bench.commands.kills import kills
from edgewise_bench.commands.memory import memory
from edgewise_bench.commands.money import money
from edgewise_bench.commands.overhead import overhead
from edgewise_bench.commands.privacy import privacy
from edgewise_bench.commands.request import request
from edgewise_bench.commands.routing import routing
from edgewise_bench.commands.scale import scale
from edgewise_bench.commands.see import see
from edgewise_bench.commands.serve import serve
from edgewise_bench.commands.soak import soak
from edgewise_bench.commands.speech import speech
from edgewise_bench.commands.spoken import spoken
from edgewise_bench.commands.team import team
from edgewise_bench.commands.tools import tools
from edgewise_bench.commands.traces import traces
from edgewise_bench.commands.warm import warm
from edgewise_bench.commands.workload import workload


@click.group(context_settings={"help_option_names": ["-h", "--help"]})  # also when run alone
def bench() -> None:
    """Measure speed and quality on this machine.

    Every bench prints a scorecard: a table, or with --json one object.
    """


for command in (
    act, bfcl, calibration, caller, clients, conversations, cost, decide, embed, engines, find,
    forward, hostile, isolate, kills, memory, money, overhead, privacy, request, routing, scale,
    see, serve, soak, speech, spoken, team, tools, traces, warm, workload,
):  # fmt: skip
    bench.add_command(command)
