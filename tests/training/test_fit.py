from pathlib import Path

import numpy as np
import pytest
import torch

import clbr
from clbr import InputError, World


def test_fit_gives_a_recommender_at_its_best_epoch(tiny: World, tmp_path: Path) -> None:
    trained = clbr.fit(tiny.dataset, "crosscbr", epochs=4, learning_rate=0.01, out=tmp_path / "run")
    assert trained.evaluate("validation", ks=(20,))["recall@20"] > 0.4
    assert trained.scores(torch.tensor([3])).shape == (1, 150)
    best = trained.recommend([3, 5], k=10)
    assert best.shape == (2, 10)
    has = tiny.dataset.train[tiny.dataset.train[:, 0] == 3, 1]
    assert not np.isin(best[0], has).any()
    assert (tmp_path / "run" / "config.toml").exists()
    assert repr(trained) == "Trained(crosscbr, seed 0, on tiny)"


def test_only_known_users_get_recommendations(tiny: World) -> None:
    trained = clbr.fit(tiny.dataset, "bprmf", epochs=1)
    assert trained.recommend([], k=3).shape == (0, 3)
    for users in ([-1], [0, 600], [0.7]):
        with pytest.raises(InputError, match="expected whole numbers from 0 to 599"):
            trained.recommend(users, k=3)


def test_fit_warns_of_edits_without_effect(tiny: World) -> None:
    told = r"lightgcn does not look at user-item pairs: .* \(ratio_ui is taken as 0\)"
    with pytest.warns(UserWarning, match=told):
        clbr.fit(tiny.dataset, "lightgcn", paradigm="clbr", epochs=1, ratio_bi=0.0)


def test_fit_refuses_what_it_does_not_know(tiny: World) -> None:
    with pytest.raises(InputError, match=r"unknown setting 'epoch' of bprmf, did you mean 'epochs'\?"):
        clbr.fit(tiny.dataset, "bprmf", epoch=3)
