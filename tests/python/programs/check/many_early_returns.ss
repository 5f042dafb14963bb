# Ways to the end of a function multiply.
# expect: E0901 at 4:1

fn f(x: int) -> int:
    if x == 1:
        print(1)
    elif x == 101:
        return 1
    else:
        print(x)
    if x == 2:
        print(2)
    elif x == 102:
        return 2
    else:
        print(x)
    if x == 3:
        print(3)
    elif x == 103:
        return 3
    else:
        print(x)
    if x == 4:
        print(4)
    elif x == 104:
        return 4
    else:
        print(x)
    if x == 5:
        print(5)
    elif x == 105:
        return 5
    else:
        print(x)
    if x == 6:
        print(6)
    elif x == 106:
        return 6
    else:
        print(x)
    if x == 7:
        print(7)
    elif x == 107:
        return 7
    else:
        print(x)
    if x == 8:
        print(8)
    elif x == 108:
        return 8
    else:
        print(x)
    if x == 9:
        print(9)
    elif x == 109:
        return 9
    else:
        print(x)
    return x
