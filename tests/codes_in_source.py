"""Finds, in the source, every code that can reach a reply, an attempt or an error."""

from __future__ import annotations

import ast
import re

from tests.test_layout import MODULES

CODE_NAMES = {"code", "outcome", "degraded_code"}
SAYS_CODES = {"Misfit": 0, "conclude": 0, "signal": 0}  # call: which argument is the code


def texts(node: ast.AST) -> set[str]:
    """Plain strings in an expression; an f-string's pieces are not codes by themselves."""
    if isinstance(node, ast.JoinedStr | ast.Compare):
        return set()
    if isinstance(node, ast.Call):  # an argument of a call is that call's business
        return set()
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) and node.value else set()
    return set().union(*(texts(child) for child in ast.iter_child_nodes(node)))


def said_by(node: ast.AST) -> set[str]:
    """Codes that one statement, call or keyword argument says."""
    if isinstance(node, ast.keyword) and node.arg in CODE_NAMES:
        return texts(node.value)
    if isinstance(node, ast.Call):
        place = SAYS_CODES.get(ast.unparse(node.func).rpartition(".")[2])
        return set() if place is None or place >= len(node.args) else texts(node.args[place])
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {ast.unparse(target).rpartition(".")[2] for target in targets}
        if names & CODE_NAMES:
            return texts(node.value)
        if "_CODES" in names:  # a table of exceptions and the codes they get
            return texts(node.value)
    return set()


def codes_in_source() -> set[str]:
    found = set()
    for module, path in MODULES.items():
        if re.match(r"edgewise\.(errors|engine|cloud|decide|flows|record)\b", module):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                found |= said_by(node)
    return found


def misfit_codes() -> set[str]:
    """Codes that also occur behind `handoff_` and `signalled_`."""
    found = {"no_local_model"}  # made from an exception's code
    tree = ast.parse(MODULES["edgewise.decide.policy"].read_text("utf-8"))
    # Where the application routes, neither time nor an earlier turn is a reason: none of these
    # looks at anything.
    others = ("Pace", "find_queue", "Sessions", "find_no_progress")
    parts = [part for part in tree.body if getattr(part, "name", "") not in others]
    for node in (node for part in parts for node in ast.walk(part)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Misfit":
            found |= texts(node.args[0])
    return found
