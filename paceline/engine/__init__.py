"""The engine: one thread that owns MLX, one batch, one step after another."""
