# expect: E0122 at 4:5

fn f():
    """Does nothing."""
    return
