# expect: E0110 at 3:13

const Big = 9223372036854775808
