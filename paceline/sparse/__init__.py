"""Sparse prefill: a small draft model scores a long prompt's tokens, and the model reads only the best."""
