"""Loading and adapting models: mlx-lm's language modules, mlx-vlm's vision towers, wrapped once, at load."""
