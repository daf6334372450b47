from __future__ import annotations

from pathlib import Path

from paceline.setting_sources import flag_name, unneeded, variable_name
from paceline.settings import Settings


def test_a_setting_has_one_spelling_in_each_source() -> None:
    assert (flag_name("max_num_seqs"), variable_name("max_num_seqs")) == ("--max-num-seqs", "PACELINE_MAX_NUM_SEQS")


def test_sampling_defaults_of_three_sources_are_taken_key_by_key(tmp_path: Path) -> None:
    config = tmp_path / "paceline.toml"
    config.write_text("override_generation_config = {temperature = 0.5, top_k = 7}\n")
    env = {"PACELINE_DEFAULT_TEMPERATURE": "0.1", "PACELINE_DEFAULT_MIN_P": "0.2"}
    settings = Settings.load({"default_top_p": "0.9"}, config, env)
    assert settings.override_generation_config == {"temperature": 0.5, "top_k": 7, "min_p": 0.2, "top_p": 0.9}
    assert type(settings.override_generation_config["top_k"]) is int


def test_what_has_no_effect_is_told_as_each_source_spells_it(tmp_path: Path) -> None:
    config = tmp_path / "paceline.toml"
    config.write_text("enable_mtp = true\n")
    flags, env = {"mllm": True, "continuous_batching": None}, {"PACELINE_TRUST_REMOTE_CODE": "1"}
    assert Settings.load(flags, config, env) == Settings()
    assert unneeded(flags, config, env) == ["--mllm", f"enable_mtp in {config}", "PACELINE_TRUST_REMOTE_CODE"]
    assert unneeded({}, None, {}) == []
