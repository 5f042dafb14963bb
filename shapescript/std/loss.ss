# Losses made of primitives, averaged over every axis. `cross_entropy` is built in: its gradient is a formula of its own.

fn mse(prediction: [..s], target: [..s]) -> []:
    return mean((prediction - target) ** 2, over=s)

fn l1(prediction: [..s], target: [..s]) -> []:
    return mean(abs(prediction - target), over=s)

# Half a square near 0, a line from `delta` on.
fn huber(prediction: [..s], target: [..s], delta: float = 1.0) -> []:
    far = abs(prediction - target)
    near = minimum(far, zeros[..s] + delta)
    return mean(near * (far - 0.5 * near), over=s)
