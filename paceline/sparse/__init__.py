"""Sparse prefill: a small draft model says which parts of a long prompt matter, and the model reads only those."""
