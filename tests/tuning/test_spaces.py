"""What a search tries: the search spaces of models and strategies, and the values next to a preset."""

from dataclasses import replace

import pytest

from clbr import World
from clbr.models.registry import MODELS
from clbr.training.config import compose
from clbr.tuning.spaces import nearby, search_space
from clbr.tuning.study import make_study_settings


@pytest.mark.parametrize("model", [name for name in MODELS if name != "popularity"])
def test_every_model_accepts_the_values_of_its_search_space(model: str) -> None:
    for key, values in search_space(compose("shop", model)).items():
        assert len(values) == len(set(values)) >= 2
        for value in values:
            compose("shop", model, changes={key: value})


@pytest.mark.parametrize("paradigm", ["clbr", "casr"])
def test_every_strategy_with_views_accepts_the_values_of_its_search_space(paradigm: str) -> None:
    for key, values in search_space(compose("shop", "bgcn", paradigm=paradigm)).items():
        assert len(values) == len(set(values)) >= 2
        for value in values:
            compose("shop", "bgcn", changes={key: value}, paradigm=paradigm)


@pytest.mark.parametrize(
    ("values", "own", "found"),
    [
        ([0.1, 0.2, 0.3, 0.5], 0.3, [0.3, 0.2, 0.5]),
        ([0.1, 0.2, 0.3, 0.5], 0.4, [0.4, 0.3, 0.5]),
        ([1, 2, 3], 1, [1, 2]),
        ([1, 2, 3], 7, [7, 3]),
        ([False, True], True, [True, False]),
        (["edges", "messages"], "none", ["none", "edges", "messages"]),
    ],
)
def test_nearby_values_are_the_own_one_and_the_next_ones(
    values: list[object], own: object, found: list[object]
) -> None:
    assert nearby(values, own) == found


def test_the_preset_of_the_data_set_is_where_a_search_starts(tiny: World) -> None:
    youshu = replace(tiny.dataset, name="Youshu")
    started, default = (make_study_settings(youshu, "bgcn", seed=0, preset=preset) for preset in (None, "none"))
    assert started.first_trial["learning_rate"] == 0.003
    assert started.space["learning_rate"] == [0.003, 0.001]
    assert started == make_study_settings(youshu, "bgcn", seed=0, preset="youshu")
    assert default.first_trial["learning_rate"] == 0.001
    assert default.space["layers"] == [1, 2, 3]


def test_the_first_trial_has_the_defaults_also_where_the_space_does_not_hold_them(tiny: World) -> None:
    found = make_study_settings(tiny.dataset, "trilevel", seed=0)
    assert found.first_trial["learning_rate"] == 0.002
    assert 0.002 in found.space["learning_rate"] and 0.001 in found.space["learning_rate"]


def test_settings_without_effect_are_not_searched(tiny: World) -> None:
    def space(model: str, **changes: object) -> set[str]:
        return {*make_study_settings(tiny.dataset, model, seed=0, paradigm="clbr", changes=changes).space}

    assert not {"ratio_ui", "ratio_bi"} & space("lightgcn")
    constraint = {"constraint", "omega_u", "omega_b", "lambda_u", "lambda_b", "tau", "warm_up"}
    assert constraint <= space("bgcn")
    assert not constraint & space("bgcn", constraint="none")
    assert "ratio_bi" in space("bgcn", constraint="none")
    contrastive = space("bgcn", constraint="contrastive")
    assert "tau" in contrastive and not {"lambda_u", "lambda_b"} & contrastive
