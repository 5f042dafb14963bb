# Hyperparameters aren't built yet.
# expect: E0901 at 5:5

model M:
    rate: float
