"""The text side: messages to prompts, tokens to text. No MLX, no HTTP."""
