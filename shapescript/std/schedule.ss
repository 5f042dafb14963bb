# Rates as functions of the number of updates done, `opt.step`: 0 before the first. Nothing is remembered, so a resumed run needs only its step.

const Pi = 3.141592653589793

fn constant(step: int, rate: float) -> float:
    return rate

# Down to a `factor` of it after every so many steps.
fn step(step: int, rate: float, every: int, factor: float = 0.1) -> float:
    return rate * pow(factor, step // every)

fn exponential(step: int, rate: float, factor: float) -> float:
    return rate * pow(factor, step)

# From one rate to another along a line, over so many steps; then it stays there. So do those below.
fn linear(step: int, first: float, last: float, steps: int) -> float:
    return first + (last - first) * share(step, steps)

fn polynomial(step: int, rate: float, steps: int, power: float = 1.0, lowest: float = 0.0) -> float:
    return lowest + (rate - lowest) * pow(1.0 - share(step, steps), power)

# Half a wave of the cosine, down to the lowest rate.
fn cosine(step: int, rate: float, steps: int, lowest: float = 0.0) -> float:
    return between(rate, lowest, share(step, steps))

# Up along a line: the first update has a share of the rate already, and update number `steps` has all of it.
fn warm_up(step: int, rate: float, steps: int) -> float:
    return rate * share(step + 1, steps)

# Up over the first steps, of all, then down the cosine over the others.
fn warm_up_cosine(step: int, rate: float, warm: int, steps: int, lowest: float = 0.0) -> float:
    if step < warm:
        return warm_up(step, rate, warm)
    return cosine(step - warm, rate, steps - warm, lowest)

# Smith and Topin, "Super-convergence" (2018), as PyTorch's OneCycleLR: up a cosine for the first share of the steps, from the highest rate over
# `div`, then down another to that over `final_div`, which update number `steps` has.
fn one_cycle(step: int, highest: float, steps: int, rising: float = 0.3, div: float = 25.0, final_div: float = 1e4) -> float:
    first = highest / div
    top = rising * steps - 1.0
    if step <= top and top > 0.0:
        return between(first, highest, step / top)
    if step >= steps - 1:
        return first / final_div
    return between(highest, first / final_div, (step - top) / (steps - 1 - top))

# How much of the way is gone, 0 to 1.
fn share(step: int, steps: int) -> float:
    if step >= steps:
        return 1.0
    return step / steps

fn between(first: float, last: float, way: float) -> float:
    return last + (first - last) * (1.0 + cos(Pi * way)) / 2.0
