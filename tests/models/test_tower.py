"""mlx-vlm's model around the language model's arrays: nothing is held twice, and no code of a checkpoint is run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from paceline.models.loader import load
from paceline.models.tower import LANGUAGE, Tower, load_processor
from tests.engine.stepper import loaded
from tests.synthetic.vision_families import FAMILIES

Seeing = Callable[[str], Path]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_s_language_model_is_made_of_our_arrays(seeing: Seeing, family: str) -> None:
    model = load(str(seeing(family)), "float32")
    assert model.vision is not None
    before = mx.get_active_memory()
    parameters = tree_flatten(model.vision.view.parameters())
    mx.eval(parameters)
    split = sum(array.nbytes for name, array in parameters if ".kv_b_proj." in name)  # by mlx-lm, in another order
    assert mx.get_active_memory() == before + split
    tensors = model.vision.tower.tensors
    assert tensors and not any(name.startswith(LANGUAGE) for name in tensors)
    assert model.vision.tower_bytes == sum(array.nbytes for array in tensors.values())


def test_taking_a_tower_s_tensors_leaves_the_others_as_they_were(hybrid: Path) -> None:
    """mlx-vlm adds 1 to some norms in place."""
    weights = mx.load(str(hybrid / "model.safetensors"))
    assert isinstance(weights, dict)
    name = "model.language_model.layers.0.input_layernorm.weight"
    before = weights[name].tolist()
    taken = Tower(loaded(hybrid).config).take(weights)
    assert weights[name].tolist() == before
    assert taken and all(each.startswith("vision_tower.") for each in taken)


def test_a_processor_s_code_in_the_checkpoint_is_not_run(seeing: Seeing, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(seeing("smolvlm"), tmp_path / "model"))
    ran = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nclass Evil: pass\n")
    for file, kinds in (
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Evil", "evil.Evil"], "AutoProcessor": "evil.Evil"}),
        ("preprocessor_config.json", {"AutoImageProcessor": "evil.Evil", "AutoProcessor": "evil.Evil"}),
        ("config.json", {"AutoConfig": "evil.Evil", "AutoProcessor": "evil.Evil"}),
    ):
        config = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(config | {"auto_map": kinds}))
    load_processor(folder)
    assert not ran.exists()


def test_images_are_processed_by_pillow(seeing: Seeing) -> None:
    for family in FAMILIES:
        processor = load_processor(seeing(family)).image_processor
        assert "torch" not in " ".join(kind.__name__.lower() for kind in type(processor).__mro__)


def test_parts_are_everything_but_the_language_model(seeing: Seeing) -> None:
    model = loaded(seeing("internvl_chat"))
    assert model.vision is not None
    names = {name.split(".")[0] for name, _ in tree_flatten(model.vision.view.parameters())}
    assert names == {"language_model", "vision_model", "mlp1"}
    held = sum(array.nbytes for part in model.vision.tower.parts for _, array in tree_flatten(part.parameters()))
    assert held == model.vision.tower_bytes
