# Optimisers are for models.
# expect: E0301 at 5:16

fn f(x: [b]):
    opt = Adam(x)
