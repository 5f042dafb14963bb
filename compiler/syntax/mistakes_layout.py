"""Mistakes of layout: what stands at the margin, colons, blocks, indentation, `elif` and `else`."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.compiler.syntax.failure import EXPRESSION_ENDS, Failure, described
from shapescript.compiler.syntax.layout import DECLARATION_WORDS, MEMBER_WORDS
from shapescript.compiler.syntax.tokens import mark

HEADERS = {
    "_FN": "`fn`",
    "_MODEL": "`model`",
    "_DATA": "`data`",
    "IF": "`if`",
    "ELIF": "`elif`",
    "ELSE": "`else`",
    "WHILE": "`while`",
    "FOR": "`for`",
    "_REQUIRES": "`requires`",
}
OPERATORS_AT_LINE_START = frozenset(
    ("PLUS", "STAR", "SLASH", "FLOOR", "PERCENT", "AT", "POWER", "DOT", "VBAR", "AMPERSAND", "COMPARISON", "AND", "OR")
)
GOING_ON = "a line goes on inside brackets, or where the next line begins with `|>`"


def word_at_margin(failure: Failure) -> Diagnostic | None:
    if not failure.is_at_line_start or "_FN" not in failure.allowed or failure.found.kind in ("_INDENT", "$END"):
        return None
    found = failure.found
    word = str(found)
    if found.kind in ("ELIF", "ELSE"):
        return stray_branch(failure)
    if found.kind != "NAME":
        help = "indent it into a function" if found.kind in ("RETURN", "IF", "WHILE", "FOR") else None
        return failure.say("E0113", f"{described(found)} begins no declaration", help=help)
    if word in MEMBER_WORDS and failure.after.kind == "NAME":
        owner = "a model" if word == "buffer" else "the declaration of a function"
        return failure.say("E0113", f"`{word}` stands inside {owner}, not at the left margin", help="indent this line")
    from difflib import get_close_matches  # for a mistake alone

    close = get_close_matches(word, DECLARATION_WORDS, n=1, cutoff=0.6)
    if close and failure.after.kind == "NAME":
        return failure.say("E0113", f"`{word}` begins no declaration", help=f"did you mean `{close[0]}`?")
    help = "indent it into a function: only declarations stand at the left margin"
    if failure.after.kind == "EQUAL":
        help += f", such as `const {word} = …` and `dim {word} = …`"
    return failure.say("E0113", f"{described(found)} begins no declaration", help=help)


def deeper_line(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "_INDENT":
        return None
    first, above = failure.after, failure.line_above
    if first.kind in OPERATORS_AT_LINE_START:
        message = f"a line can't begin with {described(first)}"
        return failure.say("E0105", message, first, help=GOING_ON)
    if above and above[0].kind == "_REQUIRES":
        help = "indent the function's body as `requires` is"
        return failure.say("E0105", "this line is indented further than `requires`", first, help, ((above[0], "this line's place"),))
    message = "this line is indented further than the line above, which begins no block"
    labels = ((above[0], "the line above"),) if above else ()
    return failure.say("E0105", message, first, help="indent it as the line above", labels=labels)


def missing_colon(failure: Failure) -> Diagnostic | None:
    line, above = failure.line, failure.line_above
    if line and line[0].kind in HEADERS and "COLON" in failure.allowed:
        if failure.found.kind != "_NEWLINE" and any(token.kind == "COLON" for token in failure.rest):
            return None
        message = f"a colon must end the line that begins with {HEADERS[line[0].kind]}"
        return failure.say("E0114", message, help="write `:` here")
    body_without_colon = failure.allowed <= {"_INDENT", "_REQUIRES"} and above and above[-1].kind != "COLON"
    if failure.is_at_line_start and body_without_colon and above[0].kind in HEADERS:
        message = f"a colon must end the line that begins with {HEADERS[above[0].kind]}"
        return failure.say("E0114", message, mark("", above[-1].end), help="write `:` here")
    return None


def missing_block(failure: Failure) -> Diagnostic | None:
    above = failure.line_above
    if failure.allowed != {"_INDENT"} or not above:
        return None
    owner = HEADERS.get(above[0].kind, "this line")
    help = "indent the lines that belong to it"
    if above[0].kind == "_FN":
        help += "; a function that does nothing has `return`"
    return failure.say("E0106", f"an indented block must follow {owner}", (above[0], above[-1]), help=help)


def block_on_header_line(failure: Failure) -> Diagnostic | None:
    line = failure.line
    if failure.before.kind != "COLON" or failure.allowed != {"_NEWLINE"} or line[0].kind not in HEADERS:
        return None
    if line[0].kind == "_FN" and len(failure.rest) > 1 and failure.rest[-1].kind == "COLON":
        text = failure.text(failure.found, failure.rest[-2])
        return failure.say("E0100", "a function's result type stands after `->`", help=f"write `-> {text}:`")
    message = f"the block of {HEADERS[line[0].kind]} begins on the next line"
    return failure.say("E0106", message, help="put it on a line of its own, indented")


def stray_branch(failure: Failure) -> Diagnostic | None:
    if failure.found.kind == "IF" and failure.before.kind == "ELSE":
        return failure.say("E0128", "`else if` is one word", (failure.before, failure.found), help="write `elif`")
    if failure.found.kind not in ("ELIF", "ELSE") or not failure.is_at_line_start:
        return None
    help = f"`{failure.found}` stands right after the block of an `if` or `elif`, indented as the `if` is; an `else` is the last"
    return failure.say("E0128", f"this `{failure.found}` belongs to no `if`", help=help)


def declaration_in_block(failure: Failure) -> Diagnostic | None:
    if len(failure.line) != 1 or failure.found.kind != "NAME" or failure.before not in DECLARATION_WORDS:
        return None
    word = str(failure.before)
    help = "move it out of the block, to the margin"
    if word == "model":
        help += "; a sub-model is a member, `name: Type`"
    return failure.say("E0129", f"`{word}` declares at the left margin, not inside a block", failure.before, help)


def unfinished_line(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "_NEWLINE":
        return None
    if failure.before.kind == "_PIPE":
        help = "begin the next line with `|>` instead"
        return failure.say("E0118", "a line can't end with `|>`", failure.before, help)
    if failure.takes_expression and failure.before.kind not in EXPRESSION_ENDS:
        return failure.say("E0100", f"the line ends after {described(failure.before)}: a value must follow", help=GOING_ON)
    return None
