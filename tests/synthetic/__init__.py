"""Small checkpoints with random weights: what the tests and the research benches run on."""

from tests.synthetic import models, tokenizer, weights
from tests.synthetic.models import FAMILIES, build, main, scaled_rope

__all__ = ["FAMILIES", "build", "main", "models", "scaled_rope", "tokenizer", "weights"]
