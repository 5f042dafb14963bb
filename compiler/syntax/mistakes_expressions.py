"""Mistakes within a line: numbers, `=`, keywords as names, `mut`, comparisons, pipes, missing commas."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.compiler.syntax.failure import EXPRESSION_ENDS, KEYWORDS, Failure, described
from shapescript.compiler.syntax.tokens import Token

NUMBERS = ("INT", "FLOAT")
ARITHMETIC = frozenset(("PLUS", "MINUS", "STAR", "SLASH", "FLOOR", "PERCENT", "AT", "POWER", "VBAR", "AMPERSAND"))
AFTER_A_STAGE = ARITHMETIC | {"LSQB", "LPAR", "DOT", "COMPARISON", "AND", "OR"}
LONGEST_MEND = 40
CONDITIONS = ("IF", "ELIF", "WHILE", "RETURN")


def malformed_number(failure: Failure) -> Diagnostic | None:
    found, before = failure.found, failure.before
    earlier = failure.line[-2] if len(failure.line) > 1 else None
    if found.kind == "DOT" and failure.after.kind == "INT" and found.end == failure.after.start and failure.takes_expression:
        return failure.say("E0109", f"`.{failure.after}` is no number", (found, failure.after), f"write `0.{failure.after}`")
    if before.kind == "DOT" and earlier is not None and earlier.kind in NUMBERS and earlier.end == before.start:
        help = "a number has one point, with digits on both sides: `1.0`"
        return failure.say("E0109", f"`{earlier}.` is no number", (earlier, before), help)
    if before.kind in NUMBERS and found.kind == "NAME" and failure.touches:
        return failure.say("E0109", f"`{before}{found}` is no number", (before, found), number_mend(str(before), str(found)))
    return None


def number_mend(digits: str, letters: str) -> str:
    if letters.startswith("_"):
        return f"digits stand together: `{digits}{letters.replace('_', '')}`"
    if digits == "0" and letters[0] in "xXbBoO":
        return "numbers are written in decimal"
    if letters in ("e", "E"):
        return f"an exponent has digits: `{digits}e5`"
    return f"a product is written `{digits}*{letters}`"


def misplaced_equal(failure: Failure) -> Diagnostic | None:
    found, before, line = failure.found, failure.before, failure.line
    if found.kind == "COLON" and failure.after.kind == "EQUAL" and found.end == failure.after.start:
        help = "bind the name on a line of its own: `x = …`"
        return failure.say("E0115", "there is no `:=`", (found, failure.after), help)
    if found.kind != "EQUAL" or not line:
        return None
    if failure.touches and before.kind in ARITHMETIC:
        target = failure.text(line[0], line[-2]) if len(line) > 1 else "x"
        mend = f"write `{target} = {target} {before} …`" if len(target) <= LONGEST_MEND else None
        return failure.say("E0121", f"there is no `{before}=`", (before, found), mend)
    if failure.touches and before.kind == "COMPARISON":
        return failure.say("E0115", f"there is no `{before}=`", (before, found), "equality is `==`")
    if before.kind in KEYWORDS - {"MUT"}:
        return failure.say("E0116", f"{described(before)} can't be a name", before, "choose another name")
    if line[0].kind in CONDITIONS or (failure.opening is not None and before.kind in EXPRESSION_ENDS):
        return failure.say("E0115", "`=` gives a name to a value; it compares nothing", help="equality is `==`")
    if any(token.kind == "EQUAL" for token in failure.level):
        return failure.say("E0123", "a line binds with one `=`", help="bind the second name on a line of its own")
    if before.kind in EXPRESSION_ENDS and "AND" in failure.allowed:
        start = next((index for index, token in enumerate(line) if token.kind != "MUT"), 0)
        message = "only a name, a part `m.x` or places `x[n=0]` can stand before `=`"
        help = "bind a name, `x = …`"
        return failure.say("E0123", message, (line[start], before), help)
    if len(line) > 2 and line[0].kind == "NAME" and line[1].kind == "COLON":
        return failure.say("E0100", "a field of a record has no default", help="give it where the record is built: `Point(x=1)`")
    return None


def annotated_binding(failure: Failure) -> Diagnostic | None:
    names = [token for token in failure.line if token.kind != "MUT"]
    if failure.found.kind != "COLON" or len(names) != 1 or names[0].kind != "NAME" or failure.after.kind == "EQUAL":
        return None
    if not any(token.kind == "EQUAL" for token in failure.rest):
        return None
    help = f"write `{failure.text(failure.line[0], names[0])} = …`: the type is the value's"
    return failure.say("E0121", "a binding has no type", help=help)


def keyword_as_name(failure: Failure) -> Diagnostic | None:
    found = failure.found
    if found.kind not in KEYWORDS - {"MUT"} or "NAME" not in failure.allowed:
        return None
    if failure.takes_expression and found.kind not in ("IN", "AS", "AND", "OR") and failure.after.kind != "EQUAL":
        return None
    return failure.say("E0116", f"{described(found)} can't be a name", help="choose another name")


def misplaced_mut(failure: Failure) -> Diagnostic | None:
    where = "`mut` stands before a name: where it is bound, at a parameter, and at an argument"
    if failure.found.kind == "MUT" and failure.before.kind == "_PATTERN":
        help = "a colon stands between operands and pattern: `f(mut x: b n -> n b)`"
        return failure.say("E0130", "an operand can't stand in a pattern", help=help)
    if failure.found.kind == "MUT":
        return failure.say("E0127", "`mut` can't stand here", help=where)
    part = since_last(failure.level, "COMMA")
    if part and part[0].kind == "MUT" and (len(part) == 1 or failure.found.kind in AFTER_A_STAGE):
        end = failure.found if failure.found.kind not in ("_NEWLINE", "$END") else part[-1]
        return failure.say("E0127", "what `mut` marks must be a name", (part[0], end), help=where)
    return None


def since_last(level: list[Token], kind: str) -> list[Token]:
    last = max((index for index, token in enumerate(level) if token.kind == kind), default=-1)
    return level[last + 1 :]


def comparison_chain(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "COMPARISON" or "COMPARISON" in failure.allowed or "AND" not in failure.allowed:
        return None
    first = next((token for token in reversed(failure.level) if token.kind == "COMPARISON"), None)
    if first is None:
        return None
    help = "join two comparisons with `and`: `a < b and b < c`"
    return failure.say("E0117", "comparisons don't chain", help=help, labels=((first, "the first comparison"),))


def after_stage(failure: Failure) -> Diagnostic | None:
    found = failure.found
    if failure.before.kind == "_PIPE":
        help = "what stands there takes the piped value as its first argument: `x |> f(a)` is `f(x, a)`"
        return failure.say("E0118", f"after `|>` stands a function's name, not {described(found)}", help=help)
    if "_PIPE" not in failure.allowed or "PLUS" in failure.allowed or found.kind not in AFTER_A_STAGE:
        return None
    help = "put the whole pipe in brackets, `(x |> f(a)) …`, or bind it to a name first"
    return failure.say("E0118", f"after a stage of a pipe can't stand {described(found)}", help=help)


def bare_not(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "NOT" or failure.before.kind not in ARITHMETIC | {"COMPARISON"}:
        return None
    return failure.say("E0100", f"`not` can't stand after {described(failure.before)}", help="put it in brackets: `(not …)`")


def pattern_without_arrow(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "COLON" or failure.opening is None or failure.line[failure.opening].kind != "LPAR":
        return None
    help = "after a colon in a call's brackets stands a pattern: `rearrange(x: b (h w) -> b h w)`"
    return failure.say("E0100", "this colon begins a pattern, but no `->` follows in the brackets", help=help)


def side_by_side(failure: Failure) -> Diagnostic | None:
    found = failure.found
    if not failure.follows_expression or found.kind not in ("NAME", "INT", "FLOAT", "STRING", "TRUE", "FALSE"):
        return None
    message = f"{described(found)} can't stand right after {described(failure.before)}"
    if failure.opening is not None:
        return failure.say("E0100", message, help="is a comma or an operator missing between them?")
    if failure.before.kind == "NAME" and len(failure.line) == 1:
        return failure.say("E0100", message, help=f"a call has brackets: `{failure.before}(…)`")
    return failure.say("E0100", message, help="is an operator missing between them?")
