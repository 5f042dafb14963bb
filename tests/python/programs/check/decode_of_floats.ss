# Ids are whole numbers.
# expect: E0301 at 5:21

fn f(v: Vocabulary, x: [n]):
    print(decode(v, x))
