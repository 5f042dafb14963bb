# A size of a text is told which text.
# expect: E0302 at 4:18

dim Vocabulary = characters()
