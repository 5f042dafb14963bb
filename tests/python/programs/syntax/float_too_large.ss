# expect: E0110 at 3:13

const Big = 1e999
