"""What docs/exactness.md defines, as data that both engines read: scalar functions, random numbers, orders of summation."""
