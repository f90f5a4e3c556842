import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import InputError, World, evaluate, save
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import VECTORS, Artifact, open_artifact
from clbr.inference.card import write_card
from clbr.inference.export import export, widened
from clbr.inference.recommend import KnownScorer, recommend
from clbr.models.registry import MODELS, make_model
from clbr.models.trilevel import TriLevel
from clbr.training.config import compose
from clbr.training.run import start
from clbr.training.run_folder import best_scorer

Make = Callable[[str], Path]


@pytest.mark.parametrize("model", MODELS)
def test_an_artifact_scores_as_its_run_does(model: str, artifact_of: Make, tiny: World) -> None:
    folder = artifact_of(model)
    run = folder.parent / "run-elsewhere"
    users, bundles = (torch.from_numpy(np.unique(side).astype(np.int64)) for side in tiny.dataset.train.T)
    there = best_scorer(run, tiny.dataset).scores(users)
    here = open_artifact(folder).scorer.scores(users)
    assert torch.allclose(here[:, bundles], there[:, bundles], atol=1e-5)


def test_the_card_measures_what_is_served(artifact: Artifact, tiny: World) -> None:
    result = evaluate(KnownScorer(artifact), tiny.dataset, split="test")
    validation = evaluate(KnownScorer(artifact), tiny.dataset, split="validation")
    assert artifact.about.validation["recall@20"] == validation["recall@20"]
    assert artifact.about.test["recall@20"] == result["recall@20"]
    heavy, light = artifact.about.segments["heavy"], artifact.about.segments["light"]
    assert heavy["users"] + light["users"] == len(result.users)
    mean = (heavy["users"] * heavy["ndcg@20"] + light["users"] * light["ndcg@20"]) / len(result.users)
    assert mean == pytest.approx(result["ndcg@20"])
    told = (artifact.folder / "card.md").read_text()
    assert f"{100 * result['recall@20']:.2f}" in told
    assert "600 users, 150 bundles, 240 items" in told


def test_the_card_measures_filled_in_vectors_not_plain_ones(tiny: World, tmp_path: Path) -> None:
    """All test pairs are of a bundle that nobody chose in training: served, it is found; by its plain vector not."""
    dataset = tiny.dataset
    cold = int(dataset.popularity.argmax())
    chosen = dataset.train[dataset.train[:, 1] == cold]
    kept = dataset.train[dataset.train[:, 1] != cold]
    held_out = replace(
        dataset, train=kept, validation=dataset.validation[dataset.validation[:, 1] != cold], test=chosen
    )
    changes = {"epochs": 8, "learning_rate": 0.01, "batch_size": 512}
    start(tmp_path / "run", compose("", "crosscbr", changes=changes), held_out)
    opened = open_artifact(export(tmp_path / "run", tmp_path / "out", data=held_out))
    plain = evaluate(best_scorer(tmp_path / "run", held_out), held_out, split="test")
    served = evaluate(KnownScorer(opened), held_out, split="test")
    assert opened.about.test["recall@40"] == served["recall@40"] > plain["recall@40"]


def test_the_card_counts_cold_users_as_tested_only_if_they_are(artifact: Artifact, tiny: World) -> None:
    cold = int(np.setdiff1d(np.unique(tiny.dataset.ui[:, 0]), tiny.dataset.train[:, 0])[0])
    assert "alone, and no test pair measures their quality." in write_card(artifact.about, tiny.dataset)
    tested = replace(tiny.dataset, test=np.array([[cold, 0]]))
    assert "no test pair measures" not in write_card(artifact.about, tested)


def test_names_come_along(artifact: Artifact, tiny: World) -> None:
    assert artifact.bundles.label(3) == tiny.dataset.bundles.label(3)
    assert artifact.items.label(0) == tiny.dataset.items.label(0)


def test_unseen_nodes_change_nothing_for_the_others(tiny: World) -> None:
    config = compose("tiny", "bgcn", changes={"epochs": 1})
    from clbr.inference.artifact import make_graph
    from clbr.models.base import Encoder

    model = make_model("bgcn", config.settings, tiny.dataset, torch.Generator().manual_seed(0))
    wide = widened(model, "bgcn", config.settings, tiny.dataset)
    assert isinstance(model, Encoder) and isinstance(wide, Encoder)
    dataset = tiny.dataset
    pairs = {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}
    with torch.no_grad():
        here = model.encode(BundleGraph.of(dataset))
        there = wide.encode(make_graph(pairs, 600, 150, 240))  # type: ignore[arg-type]
    assert torch.allclose(here.joined("users"), there.joined("users")[:-1], atol=1e-6)
    assert torch.allclose(here.joined("bundles"), there.joined("bundles")[:-1], atol=1e-6)


@pytest.mark.parametrize("others", [{}, {"objective": "bpr"}, {"fusion": "early"}], ids=str)
def test_own_vectors_that_were_never_trained_are_0(others: dict[str, str], tiny: World) -> None:
    """Of users without bundles, if only users with bundles have any: a first bundle gives them none either."""
    data = replace(tiny.dataset, train=tiny.dataset.train[tiny.dataset.train[:, 0] != 5])
    model = make_model("trilevel", {"user_vectors": "choosers"}, data, torch.Generator().manual_seed(0))
    assert isinstance(model, TriLevel)
    for settings, own in (({"user_vectors": "choosers"}, 0 * model.users[5]), ({}, model.users[5])):
        wide = widened(model, "trilevel", settings | others, data)
        assert isinstance(wide, TriLevel) and torch.equal(wide.users[5], own)
        assert torch.equal(wide.users[6], model.users[6])


@pytest.mark.parametrize("name", ["vectors.safetensors", "weights.safetensors", "graph.safetensors", "bundles.json"])
def test_a_changed_byte_is_noticed_when_the_file_is_needed(name: str, artifact: Artifact, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(artifact.folder, copy)
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    opened = open_artifact(copy)
    with pytest.raises(InputError, match=rf"{name}: is damaged .* export it again"):
        opened.verify()
    with pytest.raises(InputError, match="is damaged"):
        {
            "vectors.safetensors": lambda: recommend(opened, 0),
            "weights.safetensors": lambda: opened.model,
            "graph.safetensors": lambda: opened.graph,
            "bundles.json": lambda: opened.bundles,
        }[name]()


def test_an_incomplete_artifact_is_an_error(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no recommender there"):
        open_artifact(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(artifact.folder, copy)
    (copy / "graph.safetensors").unlink()
    with pytest.raises(InputError, match="graph.safetensors is missing"):
        open_artifact(copy)
    about = json.loads((copy / "artifact.json").read_text())
    for change, message in (
        ({"layout": 3}, "has layout 3, and this version of clbr reads 2; it was made by a newer version: install that"),
        ({"layout": 1}, "reads 2; export it again"),
        ({"seed": 5}, "its checksum has changed"),
    ):
        (copy / "artifact.json").write_text(json.dumps(about | change))
        with pytest.raises(InputError, match=message):
            open_artifact(copy)
    for content in ("{", "[]", '"layout"', "[" * 100_000):
        (copy / "artifact.json").write_text(content)
        with pytest.raises(InputError, match="is damaged"):
            open_artifact(copy)


def test_export_keeps_what_is_there_and_force_replaces_an_artifact_only(
    tiny: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save(tiny.dataset, tmp_path / "shop")
    start(tmp_path / "run", compose(str(data), "bprmf", changes={"epochs": 1}), tiny.dataset)
    export(tmp_path / "run", tmp_path / "out")
    with monkeypatch.context() as patched, pytest.raises(InputError, match="is not empty"):
        patched.setattr("clbr.inference.export.measure", lambda *_, **__: pytest.fail("work was done in vain"))
        export(tmp_path / "run", tmp_path / "out")
    export(tmp_path / "run", tmp_path / "out", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other"):
        export(tmp_path / "run", tmp_path / "other", force=True)
    assert (tmp_path / "other" / "letter.txt").read_text() == "dear"


def test_vectors_are_mapped_not_read(artifact: Artifact) -> None:
    users = artifact.embeddings.levels["item"].users
    assert users.shape == (601, 64)
    assert np.isfinite(users.numpy()).all()
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not say what is mapped")
    regions = [line.split() for line in maps.read_text().splitlines() if str(artifact.folder / VECTORS) in line]
    spans = [[int(end, 16) for end in region[0].split("-")] for region in regions]
    assert any(start <= users.data_ptr() < end for start, end in spans)
