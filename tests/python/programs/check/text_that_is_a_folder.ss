# A folder is no text.
# expect: E0506 at 4:28

dim Longest = longest_line("python:pydoc_data")
