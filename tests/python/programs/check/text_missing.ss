# A size of a text needs the text.
# expect: E0506 at 4:29

dim Vocabulary = characters("no such file.txt")
