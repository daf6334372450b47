"""Measuring: a load generator for any OpenAI-compatible address, and the engine against the raw loop."""
