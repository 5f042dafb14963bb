# What is measured beside the loss, as sums and counts: over batches of unequal size both are added, and divided at the end. With a mask
# only the rows where it is true are looked at.

# How many rows have their largest logit, the first of equals, at the label; and how many rows there are.
fn hits[F: float](logits: F[..s c], label: int[..s]) -> (int, int):
    return top_hits[1](logits, label)

fn hits[F: float](logits: F[..s c], label: int[..s], mask: bool[..s]) -> (int, int):
    return top_hits[1](logits, label, mask)

# The same for rows that have the label among their K largest logits: `metric.top_hits[5](logits, label)`.
fn top_hits[K, F: float](logits: F[..s c], label: int[..s]) -> (int, int):
    return top_hits[K](logits, label, zeros_like(label) == 0)

fn top_hits[K, F: float](logits: F[..s c], label: int[..s], mask: bool[..s]) -> (int, int):
    wanted = gather(arange[c], where(mask, label, 0), over=c)
    largest, places = topk(logits, over=c, count=K)
    found = any(places == repeat(wanted: ..s -> ..s K), over=K)
    return count(found & mask), count(mask)

# The sum of the rows' cross entropies, and how many rows there are. `exp(total / count)` is the perplexity.
fn total_cross_entropy[F: float](logits: F[..s c], label: int[..s]) -> (float, int):
    return total_cross_entropy(logits, label, zeros_like(label) == 0)

fn total_cross_entropy[F: float](logits: F[..s c], label: int[..s], mask: bool[..s]) -> (float, int):
    losses = cross_entropy(logits, label, mask=mask, reduction="none")
    return float(sum(f64(losses), over=s)), count(mask)

fn perplexity(total: float, count: int) -> float:
    return exp(total / count)

fn count(mask: bool[..s]) -> int:
    return int(sum(int(mask), over=s))
