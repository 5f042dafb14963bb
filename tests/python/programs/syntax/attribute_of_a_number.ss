# expect: E0109 at 3:14

const Rate = 1.e5
