"""OpenAI's endpoints, and those that vLLM has beside them."""
