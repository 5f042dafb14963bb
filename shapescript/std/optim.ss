# What trains a model, written over its parameters as vectors. The states are models: they are saved, loaded and averaged like any other.
# A parameter's group holds here too: `rates(m)` is 0 where it is frozen, `decays(m)` where it has no decay.

# Chen and others, "Symbolic discovery of optimization algorithms" (2023): every parameter moves by the rate alone, up or down.
model Lion[M: model]:
    moment: M = zeros
    buffer step: int[] = zeros

fn lion[M: model](m: M) -> Lion[M]:
    return Lion[M](seed=0)

fn update[M: model](mut m: M, mut opt: Lion[M], g: M, lr: float, beta1: float = 0.9, beta2: float = 0.99, decay: float = 0.0):
    check_finite(g)
    direction = sign(opt.moment * beta1 + g * (1.0 - beta1))
    m = m - rates(m) * lr * (direction + decays(m) * decay * m)
    opt.moment = opt.moment * beta2 + g * (1.0 - beta2)
    opt.step = opt.step + 1

# A running mean of a model's parameters; it begins with the first ones that it is shown. Its buffers are the last ones.
model Average[M: model]:
    mean: M = zeros
    buffer count: int[] = zeros

fn average[M: model](m: M) -> Average[M]:
    return Average[M](seed=0)

fn follow[M: model](mut run: Average[M], m: M, keep: float = 0.999):
    if run.count == 0:
        run.mean = m
    else:
        run.mean = m * (1.0 - keep) + run.mean * keep
    run.count = run.count + 1

# The gradient of a mean over many examples from those over some of them at a time, each weighted by how many it has; of none it is 0.
model Accumulated[M: model]:
    total: M = zeros
    buffer count: int[] = zeros

fn accumulated[M: model](m: M) -> Accumulated[M]:
    return Accumulated[M](seed=0)

fn add[M: model](mut so_far: Accumulated[M], g: M, count: int):
    so_far.total = so_far.total + g * count
    so_far.count = so_far.count + count

fn gradient[M: model](so_far: Accumulated[M]) -> M:
    return so_far.total / maximum(int(so_far.count), 1)
