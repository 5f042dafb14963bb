"""What programs use while they run: parameters, modes, datasets, sinks, checkpoints."""
