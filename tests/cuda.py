"""A mark for tests that need an NVIDIA GPU: `make test-cuda` runs them there."""

import mlx.core as mx
import pytest

on_cuda = pytest.mark.skipif(not mx.cuda.is_available(), reason="there is no CUDA here")
