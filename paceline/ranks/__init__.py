"""Ranks: the processes that run one model together. What they say to each other beside MLX's collectives: no MLX."""
