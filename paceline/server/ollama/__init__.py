"""Ollama's API, below /api: a translation, for apps that speak nothing else."""
