# expect: E0111 at 3:17

const Path = "C:\dir"
