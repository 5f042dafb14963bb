# expect: E0113 at 3:1

x = 1
y = 2
print(x)
