"""Mistakes among axes and types: commas, signs, slices by position, missing types."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.compiler.syntax.failure import Failure, described

SLICE_HELP = "an index names its axis: `x[n=0]`, `x[n=1..3]`, `x[n=1..]`"
LONGEST_MEND = 60


def among_axes(failure: Failure) -> Diagnostic | None:
    """An axis could stand here: in a type, a pattern, or an index."""
    if not {"NAME", "INT"} <= failure.allowed or "STRING" in failure.allowed:
        return None
    found = failure.found
    in_index = is_index(failure)
    if failure.before.kind == "_DOTS" or (found.kind == "_DOTS" and failure.touches):
        return None
    if found.kind == "COMMA":
        return commas(failure)
    if found.kind == "MINUS":
        help = "an index names its axis, and places count from 0: the last is `x[n=n-1]`" if in_index else None
        return failure.say("E0120", "an axis has no sign", help=help)
    if in_index and (found.kind == "COLON" or found == "=="):
        return failure.say("E0120", f"{described(found)} can't stand in an index", help=SLICE_HELP)
    if found.kind in ("POWER", "FLOOR", "PERCENT", "AT"):
        help = "axes are computed with `+`, `-`, `*`, exact `/` and `//`"
        return failure.say("E0120", f"{described(found)} can't stand in an axis", help=help)
    if found.kind in ("FLOAT", "STRING", "TRUE", "FALSE", "LSQB"):
        help = "an axis is a name, a whole number, or a group `(h w)`"
        return failure.say("E0120", f"{described(found)} can't stand among axes", help=help)
    return None


def colon_in_a_range(failure: Failure) -> Diagnostic | None:
    """`x[n=0:2]`."""
    opening = failure.opening
    if failure.found.kind != "COLON" or opening is None or not is_index(failure):
        return None
    if all(token.kind != "EQUAL" for token in failure.line[opening:]):
        return None
    return failure.say("E0120", "`:` can't stand in an index", help="the places from 1 to 2 are `x[n=1..3]`")


def is_index(failure: Failure) -> bool:
    """The innermost bracket is square and stands right after a value or a name."""
    opening = failure.opening
    if not opening or failure.line[opening].kind != "LSQB":
        return False
    return failure.line[opening - 1].end == failure.line[opening].start


def commas(failure: Failure) -> Diagnostic:
    help = "write a space instead: `[b n]`"
    if failure.opening is not None:
        opening = failure.line[failure.opening]
        end = next((token for token in failure.rest if token.kind in ("RSQB", "RPAR")), None)
        if end is not None and end.end - opening.start <= LONGEST_MEND:
            help = f"write `{' '.join(failure.text(opening, end).replace(',', ' ').split())}`"
    return failure.say("E0119", "axes are separated by spaces, not by commas", help=help)


def leading_axes_without_name(failure: Failure) -> Diagnostic | None:
    """`...`, `[..]`, and slices by position: `x[1..3]`."""
    if failure.before.kind != "_DOTS" or "NAME" not in failure.allowed:
        return None
    earlier = failure.line[-2] if len(failure.line) > 1 else None
    if earlier is not None and earlier.kind in ("NAME", "INT", "RPAR") and earlier.end == failure.before.start:
        return failure.say("E0120", "a range in an index stands after its axis and `=`", (earlier, failure.before), SLICE_HELP)
    if "STRING" in failure.allowed:
        return None
    end = failure.found if failure.found.kind == "DOT" else failure.before
    return failure.say("E0120", "leading axes have a name", (failure.before, end), "write `..s`: `[..s D]`")


def missing_type(failure: Failure) -> Diagnostic | None:
    """After a parameter's, a member's or a field's name nothing but a colon may stand."""
    found, name = failure.found, failure.before
    if failure.allowed != {"COLON"} or name.kind != "NAME":
        return None
    if name == "self":
        help = "there are no methods: the model is a parameter like others, `m: Mlp`"
        return failure.say("E0126", "`self` has no type", name, help)
    if found.kind in ("COMMA", "RPAR", "EQUAL", "_NEWLINE", "_ARROW"):
        return failure.say("E0126", f"`{name}` has no type", name, f"write `{name}: float`, `{name}: [b n]`, or what it is")
    return failure.say("E0126", f"a colon must stand between `{name}` and its type", help=f"write `{name}: …`")


def type_expected(failure: Failure) -> Diagnostic | None:
    if failure.before.kind not in ("COLON", "_ARROW") or not {"NAME", "LSQB"} <= failure.allowed or "STRING" in failure.allowed:
        return None
    help = "a type is `int`, `float`, `[b n]`, `Mlp`, `nn.Linear[In, Hidden]` and the like"
    if failure.before.kind == "_ARROW" and failure.found.kind == "COLON":
        help = "leave out `->` where a function gives nothing"
    return failure.say("E0126", f"a type must stand here, not {described(failure.found)}", help=help)
