# Losses beside `cross_entropy` and `nll`, which are built in. Each is the mean over all elements, `NAME_each` holds the elements' own. With
# a mask it is the mean of those where that is true, 0 where it is nowhere; what stands at the others reaches neither value nor gradient.

fn mse[F: float](prediction: F[..s], target: F[..s]) -> F[]:
    return mean(mse_each(prediction, target), over=s)

fn mse[F: float](prediction: F[..s], target: F[..s], mask: bool[..s]) -> F[]:
    return masked_mean(mse_each(kept(prediction, mask), kept(target, mask)), mask)

fn mse_each[F: float](prediction: F[..s], target: F[..s]) -> F[..s]:
    return (prediction - target) ** 2

fn l1[F: float](prediction: F[..s], target: F[..s]) -> F[]:
    return mean(l1_each(prediction, target), over=s)

fn l1[F: float](prediction: F[..s], target: F[..s], mask: bool[..s]) -> F[]:
    return masked_mean(l1_each(kept(prediction, mask), kept(target, mask)), mask)

fn l1_each[F: float](prediction: F[..s], target: F[..s]) -> F[..s]:
    return abs(prediction - target)

# Half a square near 0, a line with the slope `delta` from there on.
fn huber[F: float](prediction: F[..s], target: F[..s], delta: float = 1.0) -> F[]:
    return mean(huber_each(prediction, target, delta), over=s)

fn huber[F: float](prediction: F[..s], target: F[..s], mask: bool[..s], delta: float = 1.0) -> F[]:
    return masked_mean(huber_each(kept(prediction, mask), kept(target, mask), delta), mask)

fn huber_each[F: float](prediction: F[..s], target: F[..s], delta: float = 1.0) -> F[..s]:
    far = abs(prediction - target)
    near = minimum(far, delta)
    return near * (far - 0.5 * near)

# The same over `beta`, so that the line has the slope 1; with a beta of 0 it is l1.
fn smooth_l1[F: float](prediction: F[..s], target: F[..s], beta: float = 1.0) -> F[]:
    return mean(smooth_l1_each(prediction, target, beta), over=s)

fn smooth_l1[F: float](prediction: F[..s], target: F[..s], mask: bool[..s], beta: float = 1.0) -> F[]:
    return masked_mean(smooth_l1_each(kept(prediction, mask), kept(target, mask), beta), mask)

fn smooth_l1_each[F: float](prediction: F[..s], target: F[..s], beta: float = 1.0) -> F[..s]:
    if beta == 0.0:
        return l1_each(prediction, target)
    return huber_each(prediction, target, beta) / beta

# Of logits, and how likely the truth is: 0, 1 or between. What is true counts `positive` times: one number, or one for each place of the
# last axis.
fn binary_cross_entropy[F: float](logits: F[..s], target: F[..s], positive: float = 1.0) -> F[]:
    return mean(binary_cross_entropy_each(logits, target, positive), over=s)

fn binary_cross_entropy[F: float](logits: F[..s], target: F[..s], mask: bool[..s], positive: float = 1.0) -> F[]:
    return masked_mean(binary_cross_entropy_each(kept(logits, mask), kept(target, mask), positive), mask)

fn binary_cross_entropy[F: float](logits: F[..s c], target: F[..s c], positive: F[c]) -> F[]:
    return mean(binary_cross_entropy_each(logits, target, positive), over=(s, c))

fn binary_cross_entropy_each[F: float](logits: F[..s], target: F[..s], positive: float = 1.0) -> F[..s]:
    return target * softplus(-logits) * positive + (1.0 - target) * softplus(logits)

fn binary_cross_entropy_each[F: float](logits: F[..s c], target: F[..s c], positive: F[c]) -> F[..s c]:
    return target * softplus(-logits) * positive + (1.0 - target) * softplus(logits)

# How far distributions along the last axis are from those that a model says in logarithms: for each row, and its mean over the rows.
# The target is probabilities, or logarithms too. Where it is 0, or -inf, nothing is added, whatever the model says.
fn kl_divergence[F: float](log_probability: F[..s c], target: F[..s c], log_target: bool = false) -> F[]:
    return mean(kl_divergence_each(log_probability, target, log_target), over=s)

fn kl_divergence[F: float](log_probability: F[..s c], target: F[..s c], mask: bool[..s], log_target: bool = false) -> F[]:
    there = repeat(mask: ..s -> ..s c)
    return masked_mean(kl_divergence_each(kept(log_probability, there), kept(target, there), log_target), mask)

fn kl_divergence_each[F: float](log_probability: F[..s c], target: F[..s c], log_target: bool = false) -> F[..s]:
    if log_target:
        is_none = exp(target) == 0.0
        logarithm = where(is_none, 0.0, target)
        return sum(where(is_none, 0.0, exp(logarithm) * (logarithm - log_probability)), over=c)
    likely = where(target == 0.0, 1.0, target)
    return sum(where(target == 0.0, 0.0, likely * (log(likely) - log_probability)), over=c)

# ---- Masks

# Cross entropy of the rows where the mask is true, and how many they are: what a mean over several batches weighs it by.
fn counted_cross_entropy[F: float](logits: F[..s c], label: int[..s], mask: bool[..s]) -> (F[], int):
    return cross_entropy(logits, label, mask=mask), count(mask)

fn masked_mean[F: float](x: F[..s], mask: bool[..s]) -> F[]:
    return sum(kept(x, mask), over=s) / maximum(count(mask), 1)

fn count(mask: bool[..s]) -> int:
    return int(sum(int(mask), over=s))

fn kept[F: float](x: F[..s], mask: bool[..s]) -> F[..s]:
    return where(mask, x, 0.0)

# ---- Sequences

# Graves and others, "Connectionist temporal classification" (2006): how unlikely it is that a row of n distributions, given as logarithms,
# says the target when repetitions and then blanks are left out. Each row has its own number of inputs and of labels; what stands behind
# them counts nothing. A target that no alignment says is infinitely unlikely, or 0 with `zero_infinity`; its gradient is 0 either way.
fn ctc[F: float](
    log_probability: F[..s n c], target: int[..s k], input_length: int[..s], target_length: int[..s],
    blank: int = 0, zero_infinity: bool = false
) -> F[]:
    losses = ctc_each(log_probability, target, input_length, target_length, blank, zero_infinity)
    return mean(losses / F(maximum(target_length, 1)), over=s)

fn ctc_each[F: float](
    log_probability: F[..s n c], target: int[..s k], input_length: int[..s], target_length: int[..s],
    blank: int = 0, zero_infinity: bool = false
) -> F[..s]:
    never = log(0.0)
    inputs = gather(arange[n+1], input_length, over=n+1)
    label = where(repeat(arange[k]: k -> ..s k) < repeat(target_length: ..s -> ..s k), target, blank)
    differs = label != pad(label, k=(1, 0), value=blank)[k+1=0..k]
    # Logarithms: how likely it is to have read so many labels and stand on the last of them, or on a blank behind it.
    mut on_label = F(repeat(where(arange[k] < 0, 0.0, never): k -> ..s k))
    mut on_blank = F(repeat(where(arange[k+1] == 0, 0.0, never): k+1 -> ..s k+1))
    for t in 0..n:
        said = log_probability[n=t]
        before = pad(on_label, k=(1, 0), value=never)
        skipping = where(differs, before[k+1=0..k], never)
        to_label = logsumexp(stack(on_label, on_blank[k+1=0..k], skipping, over=3), over=3) + take_along(said, label, over=c)
        to_blank = logsumexp(stack(on_blank, before, over=2), over=2) + said[c=blank]
        on_label = where(repeat(t < inputs: ..s -> ..s k), to_label, on_label)
        on_blank = where(repeat(t < inputs: ..s -> ..s k+1), to_blank, on_blank)
    ends = logsumexp(stack(on_blank, pad(on_label, k=(1, 0), value=never), over=2), over=2)
    loss = -pick(ends, target_length, over=k+1)
    if zero_infinity:
        return where(loss == -never, 0.0, loss)
    return loss
