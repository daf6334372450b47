"""Paceline: one engine, one continuous batch, for language and vision-language models on MLX."""

__version__ = "0.1.0"
