"""HTTP in front of the service: parse, refuse, stream. Nothing here imports MLX."""
