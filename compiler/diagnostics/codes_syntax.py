"""E01xx: layout and syntax. One row a code: code, title, explanation."""

SYNTAX_CODES: tuple[tuple[str, str, str], ...] = (
    ("E0100", "something else was expected",
     "The line is no sentence of the language from this place on. The message says what may stand here."),
    ("E0101", "a character that no program contains",
     "Outside strings and comments a program is written with ASCII letters, digits and signs. Word processors and web pages bring"
     " others along, such as non-breaking spaces and long dashes."),
    ("E0102", "a string that isn't closed",
     "A string ends on the line on which it begins. A line break in it is written `\\n`, a quote `\\\"`."),
    ("E0103", "a tab in the indentation",
     "Blocks are indented with spaces: how wide a tab is, nobody can see. Set the editor to insert spaces."),
    ("E0104", "an indentation that fits no block",
     "A line that ends a block stands exactly below the lines of a block that is still open."),
    ("E0105", "an unexpected indentation",
     "A line is indented further than the one above only after a line that begins a block, which ends with a colon. To go on with"
     " a line, use brackets or begin the next one with `|>`."),
    ("E0106", "an indented block is missing",
     "After `fn`, `model`, `data`, `if`, `else`, `while` and `for` with their colon, the lines of the block follow, each on its own"
     " line and indented further."),
    ("E0107", "a bracket that is never closed",
     "Everything after an open bracket belongs to it, over the ends of lines too. The place is where the bracket opens."),
    ("E0108", "a closing bracket that fits no open one",
     "`(` is closed by `)` and `[` by `]`, in the opposite order of opening."),
    ("E0109", "a malformed number",
     "Numbers are written `12`, `1.5`, `0.5` and `1e-3`: digits on both sides of the point, nothing between digits, and a product"
     " with its sign, `2*n`."),
    ("E0110", "a number that is too large",
     "Whole numbers have 64 bits, the largest is 9223372036854775807; a float is at most about 1.8e308."),
    ("E0111", "an unknown escape in a string",
     "Strings know `\\n`, `\\t`, `\\r`, `\\0`, `\\\"`, `\\\\` and `\\u` with four hexadecimal digits. A backslash is written twice."),
    ("E0112", "nested too deeply",
     "An expression or block may be nested a hundred levels deep. Bind parts of it to names or move them into functions."),
    ("E0113", "a line that begins no declaration",
     "At the left margin stand declarations only: `import`, `from`, `dim`, `const`, `data`, `model` and `fn`. Statements stand in"
     " functions."),
    ("E0114", "a missing colon",
     "A line that begins a block ends with `:`."),
    ("E0115", "`=` where values are compared",
     "`=` binds a name; two values are compared with `==`. A name is bound on a line of its own, not within an expression."),
    ("E0116", "a keyword used as a name",
     "`and`, `as`, `elif`, `else`, `false`, `for`, `if`, `in`, `mut`, `not`, `or`, `return`, `true` and `while` can't be names. Words"
     " that only begin declarations, such as `data` or `model`, can."),
    ("E0117", "chained comparisons",
     "`a < b < c` has no meaning here: write `a < b and b < c`."),
    ("E0118", "a malformed stage of a pipe",
     "After `|>` stands the name of a function or a call of one, and after it only another `|>`, since the pipe binds loosest of"
     " all. Put a pipe in brackets to go on with its value."),
    ("E0119", "axes that aren't separated by spaces",
     "Axes stand side by side with spaces between them and none inside: `[b n D]`, `[n+1]`, `[D 3*D]`, `(H Dh)`."),
    ("E0120", "something that is no axis",
     "An axis is a name, a whole number, arithmetic of these with `+`, `-`, `*` and exact `/`, a group `(h w)`, or `..s` for leading"
     " axes. An index names its axis: `x[n=0]`, `x[n=1..3]`."),
    ("E0121", "a construct of another language",
     "The language has no such word, sign or literal. The message says what is written instead."),
    ("E0122", "other quotes than double ones",
     "A string is written `\"…\"`, on one line."),
    ("E0123", "something other than a name before `=`",
     "A statement binds names: `x = …`, `mut x = …`, `a, b = …`. Parts of a value aren't assigned; what changes a model is a call that"
     " takes it as `mut`."),
    ("E0124", "an argument without a name after one with a name",
     "Arguments by place come first, arguments by name after them."),
    ("E0125", "an argument given twice",
     "Each name stands once in a call."),
    ("E0126", "a missing type",
     "Parameters, members and fields have a type after a colon: `x: [b n]`, `rate: float`. Names bound in a function have none."),
    ("E0127", "`mut` where nothing can be marked",
     "`mut` stands before the name of a parameter, of a binding, and of an argument that the called function may change:"
     " `update(mut m, mut opt, g, lr=rate)`."),
    ("E0128", "`elif` or `else` without `if`",
     "They stand right after the block of an `if` or `elif`, indented as the `if` is. `else if` is written `elif`, and `else` is last."),
    ("E0129", "a declaration inside a block",
     "Functions, models, records, dims, constants and imports are declared at the left margin only."),
    ("E0130", "a pattern without its operands",
     "In a call the operands stand before the pattern, and a colon between: `rearrange(x: b (h w) -> b h w)`. After `|>` the piped value"
     " is the operand, and the pattern stands alone."),
)  # fmt: skip
