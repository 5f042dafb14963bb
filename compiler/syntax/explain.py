"""Why the parser stopped, in the words of the language: the first mistake that is recognised, or what could have stood there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from shapescript.compiler.diagnostics.model import Diagnostic
from shapescript.compiler.syntax import mistakes_axes as axes
from shapescript.compiler.syntax import mistakes_expressions as expressions
from shapescript.compiler.syntax import mistakes_foreign as foreign
from shapescript.compiler.syntax import mistakes_layout as layout
from shapescript.compiler.syntax.failure import Failure, described

Mistake: TypeAlias = Callable[[Failure], Diagnostic | None]

# Asked in this order: what is more particular comes first.
MISTAKES: tuple[Mistake, ...] = (
    expressions.malformed_number,
    foreign.first_word,
    foreign.foreign_operator,
    layout.word_at_margin,
    layout.deeper_line,
    layout.missing_colon,
    layout.missing_block,
    layout.block_on_header_line,
    layout.stray_branch,
    layout.declaration_in_block,
    layout.unfinished_line,
    foreign.foreign_import,
    foreign.inner_word,
    foreign.list_literal,
    foreign.braces,
    foreign.foreign_string,
    axes.missing_type,
    axes.type_expected,
    axes.leading_axes_without_name,
    axes.colon_in_a_range,
    axes.among_axes,
    expressions.misplaced_mut,
    expressions.misplaced_equal,
    expressions.annotated_binding,
    expressions.keyword_as_name,
    expressions.comparison_chain,
    expressions.after_stage,
    expressions.bare_not,
    expressions.pattern_without_arrow,
    expressions.side_by_side,
)

# Kinds of tokens that together are one thing to a reader, and what it is called. A group is named if all of `signs` may stand,
# and takes all of `covered` with it.
GROUPS: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = tuple(
    (name, frozenset(signs.split()), frozenset(covered.split()))
    for name, signs, covered in (
        ("a declaration", "_FN _MODEL", "_FN _MODEL _DATA _DIM _CONST _IMPORT _FROM"),
        (
            "a statement",
            "RETURN WHILE STRING",
            "RETURN WHILE FOR IF MUT NAME INT FLOAT STRING TRUE FALSE LPAR LBRACE MINUS NOT BANG",
        ),
        ("a value", "STRING NAME MINUS", "NAME INT FLOAT STRING TRUE FALSE LPAR LBRACE MINUS NOT BANG"),
        (
            "an operator",
            "PLUS AND",
            "PLUS MINUS STAR SLASH FLOOR PERCENT AT POWER VBAR AMPERSAND COMPARISON AND OR _PIPE DOT LPAR LSQB",
        ),
        ("an axis", "NAME INT", "NAME INT LPAR _DOTS PLUS MINUS STAR SLASH"),
        ("a type", "NAME LSQB", "NAME LSQB LPAR"),
    )
)
WORDS = {
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
    "NAME": "a name",
    "INT": "a number",
    "MUT": "`mut`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "COMMA": "`,`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "_ARROW": "`->`",
    "_PIPE": "`|>`",
    "_DOTS": "`..`",
    "DOT": "`.`",
    "STAR": "`*`",
    "IN": "`in`",
    "AS": "`as`",
    "ELIF": "`elif`",
    "ELSE": "`else`",
    "_IMPORT": "`import`",
    "_BUFFER": "`buffer`",
    "_REQUIRES": "`requires`",
}
MOST_NAMED = 5


def explain(failure: Failure) -> Diagnostic:
    for mistake in MISTAKES:
        if diagnostic := mistake(failure):
            return diagnostic
    return failure.say("E0100", f"{described(failure.found)} can't stand here: expected {expectation(failure.allowed)}")


def expectation(allowed: frozenset[str]) -> str:
    """What may stand, as a list of at most a few things in a reader's terms."""
    left = set(allowed) - {"_PATTERN"}
    named: list[str] = []
    for name, signs, covered in GROUPS:
        if signs <= left:
            named.append(name)
            left -= covered
    named += [word for kind, word in WORDS.items() if kind in left]
    if len(named) > MOST_NAMED:
        named = [*named[: MOST_NAMED - 1], "something else"]
    if not named:
        return "something else"
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"
