"""How the embedded model is made: its data, its tokenizer, its training, its export, its evaluation.

Not part of the wheel. `training/README.md` says which command does what.
"""
