# expect: E0129 at 5:5

model Line:
    slope: [D]
    fn forward(x: [b D]) -> [b]:
        return x @ slope
