# More padding than the stride leaves open.
# expect: E0503 at 5:71

fn f(x: [3 n], k: [3 8 2]) -> [8 2*n+2]:
    return convolve_transposed(x, k, over=n, stride=2, output_padding=2)
