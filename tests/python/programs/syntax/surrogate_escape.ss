# expect: E0111 at 3:15

const Text = "\ud800"
