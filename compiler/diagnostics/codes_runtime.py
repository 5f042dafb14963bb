"""R1xxx: what is found while a program runs. One row a code: code, title, explanation."""

RUNTIME_CODES: tuple[tuple[str, str, str], ...] = (
    # R10xx: calls from Python
    ("R1001", "an array of another element type",
     "Arrays aren't converted silently: convert it where it is made, for instance with `array.astype(\"float32\")`."),
    ("R1002", "an array of another shape",
     "The array's shape isn't the one that the parameter declares."),
    ("R1003", "axes of one name and different sizes",
     "An axis has one size in a call, in all arguments."),
    ("R1004", "an argument of another type",
     "The parameter wants another kind of value."),
    ("R1005", "a missing or unexpected argument",
     "A call gives each parameter without a default once, and no others."),
    ("R1006", "an array that can't be used",
     "An array that is changed must be writable, and none may share memory with one that is changed."),
    # R11xx: values during a run
    ("R1101", "a label or index out of range",
     "Labels and indices go from 0 to the axis's size less 1. Nothing was changed."),
    ("R1102", "no batches",
     "The dataset is empty, or smaller than a batch where the last, smaller one is dropped."),
    ("R1103", "a reduction of nothing",
     "The maximum or mean over an axis of size 0 has no value."),
    ("R1104", "a loss that isn't finite",
     "The loss is NaN or infinite. The step was stopped before anything changed."),
    ("R1105", "a gradient that isn't finite",
     "A gradient holds NaN or infinity. The step was stopped before anything changed."),
    ("R1106", "whole-number arithmetic without a result",
     "A whole number was divided by 0 with `//` or `%`, or the least one by -1. Sums and products wrap around."),
    ("R1107", "places outside of an axis",
     "An index lies in 0 to the axis's size less 1; a range begins at 0 or later, and ends at the size or before, not before it begins."),
    # R12xx: data files
    ("R1201", "a data file that isn't found",
     "Data files are looked for beside the program, then in the working directory."),
    ("R1202", "a data file that can't be used",
     "The file is damaged, or its arrays don't fit the record."),
    # R13xx: checkpoints
    ("R1301", "a checkpoint that isn't found",
     "Checkpoints are read from and written to the working directory."),
    ("R1302", "a damaged checkpoint",
     "The file is cut short or changed. Nothing was loaded."),
    ("R1303", "a checkpoint that doesn't fit",
     "What was saved isn't what is asked for. Nothing was loaded."),
    ("R1304", "a file that can't be written",
     "The file couldn't be written; what stood there before is unchanged."),
    # R14xx: logs
    ("R1401", "a log that can't be written",
     "The sink's file couldn't be opened or written."),
    # R15xx: the machine
    ("R1501", "a processor without fused multiply-add",
     "Results would be the same, but slow beyond use; `--engine=numpy` or another machine runs the program."),
)  # fmt: skip
