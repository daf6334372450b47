"""The text side: messages to prompts, tokens to text, text to tool calls. No arrays of MLX, no HTTP."""
