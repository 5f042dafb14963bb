"""What other languages have and this one hasn't: their words, literals and operators."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.compiler.syntax.failure import Failure, described
from shapescript.compiler.syntax.layout import BLOCKS_ARE_INDENTED

RECORDS_ARE_CALLED = "a record is built by its name: `Point(x=1)`"

# First word of a line -> what to write instead.
FIRST_WORDS = {
    "def": "a function is declared with `fn`",
    "func": "a function is declared with `fn`",
    "function": "a function is declared with `fn`",
    "class": "a model is declared with `model`, a record with `data`",
    "struct": "a record is declared with `data`",
    "enum": "there are no enumerations",
    "type": "a record is declared with `data`",
    "let": "a name is bound with `x = …`, or `mut x = …` where it changes; at the margin with `const` or `dim`",
    "var": "a name that changes is bound with `mut x = …`",
    "val": "a name is bound with `x = …`",
    "print": "a call has brackets: `print(…)`",
    "assert": "what must hold is checked by types and shapes",
    "raise": "a program raises no errors of its own",
    "throw": "a program raises no errors of its own",
    "try": "errors aren't caught: an error ends the run",
    "except": "errors aren't caught: an error ends the run",
    "finally": "errors aren't caught: an error ends the run",
    "with": "a file or a mode is a value: pass it to the functions that use it",
    "del": "a name ends with its block",
    "global": "a function changes only what it gets as `mut`",
    "nonlocal": "a function changes only what it gets as `mut`",
    "yield": "a function gives its results with `return`",
    "await": "there are no coroutines",
    "async": "there are no coroutines",
    "match": "choose with `if`, `elif` and `else`",
    "switch": "choose with `if`, `elif` and `else`",
    "case": "choose with `if`, `elif` and `else`",
    "loop": "repeat with `while` or `for`",
    "do": "repeat with `while` or `for`",
    "repeat": "repeat with `while` or `for`",
    "unless": "write `if not …:`",
}
DOUBLED = {
    "AMPERSAND": "`and` joins conditions, `&` joins masks",
    "VBAR": "`or` joins conditions, `|` joins masks",
    "PLUS": "write `x = x + 1`",
}


def first_word(failure: Failure) -> Diagnostic | None:
    line = failure.line
    first = line[0] if len(line) == 1 else failure.found if not line else None
    if first is None or first.kind != "NAME" or first not in FIRST_WORDS:
        return None
    if not line and not (failure.after.kind in ("NAME", "COLON", "STRING") and "_FN" in failure.allowed):
        return None
    return failure.say("E0121", f"there is no `{first}`", first, FIRST_WORDS[first])


def inner_word(failure: Failure) -> Diagnostic | None:
    found = failure.found
    if failure.before.kind == "NAME" and failure.before == "lambda":
        help = "declare a function with `fn` and call it by its name"
        return failure.say("E0121", "there are no functions without a name", failure.before, help)
    if not failure.follows_expression:
        return None
    if found.kind == "IF":
        return failure.say("E0121", "`if` is a statement, not a value", help="bind the name in both branches of an `if`")
    if found.kind == "FOR":
        help = "operations work on whole axes; a `for` loop is a statement"
        return failure.say("E0121", "there are no comprehensions", help=help)
    if found.kind == "NAME" and found == "is":
        return failure.say("E0121", "there is no `is`", help="equality is `==`")
    if found.kind in ("IN", "NOT"):
        return failure.say("E0121", f"{described(found)} can't stand after a value", help="there is no test for membership")
    return None


def list_literal(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "LSQB" or not failure.takes_expression:
        return None
    if any(token.kind == "FOR" for token in failure.rest):
        help = "operations work on whole axes; a `for` loop is a statement"
        return failure.say("E0121", "there are no comprehensions", help=help)
    help = "several values are a tuple, `(a, b)`; tensors are joined with `stack` or `concat`; a tensor type as a value is `f32[…]`"
    return failure.say("E0121", "a value can't begin with `[`", help=help)


def braces(failure: Failure) -> Diagnostic | None:
    """Braces hold names for names alone; elsewhere they are another language's block, record, set or format."""
    found, opening = failure.found, failure.opening
    if found.kind == "LBRACE":
        help = BLOCKS_ARE_INDENTED if failure.rest[1:2] == [] or found is failure.rest[-1] else RECORDS_ARE_CALLED
        return failure.say("E0121", "a brace can't begin here", help=help)
    if opening is None or failure.line[opening].kind != "LBRACE" or failure.before.kind == "COLON":
        return None
    if found.kind in ("COMMA", "RBRACE") and failure.follows_expression:
        help = 'braces hold names with what they stand for: `rename={"old": "new"}`; several values are a tuple, `(a, b)`'
        return failure.say("E0121", "there are no sets: this has no `:` with what it stands for", failure.before, help)
    if found.kind == "EQUAL":
        return failure.say("E0121", "between the parts of a pair stands `:`, not `=`", help=RECORDS_ARE_CALLED)
    return None


def foreign_operator(failure: Failure) -> Diagnostic | None:
    found, before = failure.found, failure.before
    pair = f"{before}{found}"
    if failure.touches and found.kind == before.kind and found.kind in DOUBLED:
        return failure.say("E0121", f"there is no `{pair}`", (before, found), DOUBLED[found.kind])
    if failure.touches and pair == "<>":
        return failure.say("E0121", "there is no `<>`", (before, found), "write `!=`")
    if failure.touches and before.kind == "EQUAL" and found.kind == "COMPARISON":
        return failure.say("E0121", f"there is no `{pair}`", (before, found), f"write `{found}=`")
    if found.kind in ("STAR", "POWER") and failure.takes_expression:
        return failure.say("E0121", f"`{found}` can't stand before a value", help="arguments are given one by one")
    if found.kind == "PLUS" and failure.takes_expression:
        return failure.say("E0121", "there is no sign `+` before a value", help="remove it")
    if found.kind == "AT" and failure.is_at_line_start:
        return failure.say("E0121", "there are no decorators", help="remove this line")
    return None


def foreign_string(failure: Failure) -> Diagnostic | None:
    if failure.found.kind != "STRING" or failure.before.kind not in ("NAME", "STRING"):
        return None
    if failure.before.kind == "NAME" and failure.touches:
        help = f"remove `{failure.before}`; `print` takes several values"
        return failure.say("E0121", "a string has no letters before its quotes", failure.before, help)
    if failure.touches and failure.before == '""':
        help = "a string stands on one line, between single double quotes; a comment begins with `#`"
        return failure.say("E0122", "there are no strings in three quotes", (failure.before, failure.found), help)
    return None


def foreign_import(failure: Failure) -> Diagnostic | None:
    line = failure.line
    if not line or line[0].kind not in ("_IMPORT", "_FROM"):
        return None
    found = failure.found
    helps = {
        "COMMA": "import each module on a line of its own",
        "STAR": "name what is imported: `from a.b import c, d`",
        "LPAR": "the names stand on one line without brackets: `from a.b import c, d`",
        "AS": "import the module under a name instead: `import a.b as c`",
        "STRING": "a module is named by its path with points, without `.ss`: `import data.digits`",
        "DOT": "a module is named from the program's folder: `import helpers`",
    }
    if found.kind not in helps:
        return None
    return failure.say("E0100", f"{described(found)} can't stand in an import here", help=helps[found.kind])
