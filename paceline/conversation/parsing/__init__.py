"""Output parsing: a model's text becomes events of content, reasoning and tool calls while it streams."""
