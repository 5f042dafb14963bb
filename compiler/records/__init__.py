"""Data classes that cost little to declare: the compiler has some two hundred, and every command loads most of them."""
