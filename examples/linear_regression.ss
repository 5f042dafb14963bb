dim Points = 200

model Line:
    slope: [] = zeros
    offset: [] = zeros

fn main(steps: int = 200):
    mode = Train(seed=0)
    x = random_uniform[Points](mode)
    y = 3.0 * x - 2.0 + 0.1 * random_normal[Points](mode)
    mut line = Line(seed=0)
    mut opt = Sgd(line)
    for step in 0..steps:
        l, g = value_and_grad(mean((line.slope * x + line.offset - y) ** 2, over=Points), wrt=line)
        update(mut line, mut opt, g, lr=0.5)
    print("slope", line.slope, "offset", line.offset)
