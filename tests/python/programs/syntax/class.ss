# expect: E0121 at 3:1

class Line:
    slope: [D]
