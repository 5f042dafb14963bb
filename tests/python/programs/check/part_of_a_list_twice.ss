# expect: E0602 at 15:28
dim One = 1

model Part:
    w: [3] = ones

model Whole:
    parts: Part * 2

fn swap(mut a: Part, mut b: Part):
    b = a

fn swapped(mut m: Whole):
    swap(mut m.parts[0], mut m.parts[1])
    swap(mut m.parts[One], mut m.parts[1])
