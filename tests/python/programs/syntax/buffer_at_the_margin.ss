# expect: E0113 at 3:1

buffer mean: [D] = zeros
