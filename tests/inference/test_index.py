"""The index of the bundle vectors: recall, what it leaves out, and when lists are exact."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from clbr import InputError, Recommender, load_recommender
from clbr.data.pairs import neighbours
from clbr.errors import UnsupportedError
from clbr.evaluation.ranking import rank
from clbr.inference import index as index_module
from clbr.inference import recommend as recommend_module
from clbr.inference.artifact import open_artifact
from clbr.inference.export import add_index, is_artifact
from clbr.inference.index import BundleIndex, build, tune
from clbr.inference.lists import write_lists
from clbr.models.base import VectorScorer
from typed import Run

USERS = np.arange(40)


@pytest.fixture
def indexed(artifact_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tiny artifact with an index of its 150 bundles."""
    folder = shutil.copytree(artifact_of("crosscbr"), tmp_path / "indexed")
    monkeypatch.setattr(index_module, "MIN_BUNDLES", 100)
    monkeypatch.setattr(index_module, "RECALL", 0.5)  # few bundles: a quarter of them holds few of the best 100
    monkeypatch.setattr(index_module, "LENGTHS", (5, 10))
    add_index(folder)
    return folder


def exact_only(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of users of each call of the exact ranking."""
    calls: list[int] = []
    ranked = recommend_module.ranked_blocks

    def counted(scorer: object, users: np.ndarray, *rest: object, **options: object) -> object:
        calls.append(len(users))
        return ranked(scorer, users, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(recommend_module, "ranked_blocks", counted)
    return calls


def read_all(folder: Path) -> Recommender:
    """A recommender whose index reads every cluster: what it lists is what exact ranking lists."""
    recommender = load_recommender(folder)
    assert recommender.artifact.index is not None
    recommender.artifact.index.searcher.nprobe = recommender.artifact.index.searcher.nlist
    return recommender


def test_the_recall_is_reached_by_reading_a_part_of_the_clusters() -> None:
    """Vectors in 30 groups; a user's best bundles are those of the user's own group."""
    draw = torch.Generator().manual_seed(1)
    centres = 3 * torch.randn(30, 16, generator=draw)
    bundles = centres.repeat(100, 1) + 0.3 * torch.randn(3000, 16, generator=draw)
    users = centres + 0.1 * torch.randn(30, 16, generator=draw)
    chosen = np.array([[user, user + 30 * n] for user in range(29) for n in range(3)], np.int32)
    index = BundleIndex(build(bundles), users, bundles, chosen)
    probes, recall = tune(index)
    assert 1 <= probes <= index.searcher.nlist // 4 and min(recall.values()) >= 0.995
    everyone = np.arange(29)
    exact = rank(VectorScorer(users, bundles), everyone, 20, exclude=chosen)
    found, scores = index.rank(everyone, 20)
    assert np.mean([np.isin(*lists).mean() for lists in zip(exact, found, strict=True)]) >= 0.99
    expected = (users[:29] @ bundles.T).gather(1, torch.from_numpy(found)).numpy()
    assert scores == pytest.approx(expected, rel=1e-5) and (np.diff(scores) <= 0).all()


def test_vectors_without_clusters_are_ranked_exactly() -> None:
    draw = torch.Generator().manual_seed(1)
    users, bundles = torch.randn(50, 32, generator=draw), torch.randn(4000, 32, generator=draw)
    with pytest.raises(UnsupportedError, match="rank exactly"):
        tune(BundleIndex(build(bundles), users, bundles, np.empty((0, 2), np.int32)))


def test_lists_are_those_of_exact_ranking(
    indexed: Path, artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = load_recommender(artifact_of("crosscbr"))
    expected = exact.recommend(USERS.tolist(), k=10)
    alone = [exact.recommend_one(user, k=10, keep_chosen=True) for user in USERS.tolist()]
    calls = exact_only(monkeypatch)
    recommender = read_all(indexed)
    assert recommender.recommend(USERS.tolist(), k=10).drop("score").equals(expected.drop("score"))
    batch = recommender.recommend_batch(USERS.tolist(), k=10)
    listed = [int(one.id) for answer in batch.lists for one in answer.recommended]
    assert listed == expected["bundle"].to_list()
    for user, one in enumerate(alone):
        found = recommender.recommend_one(user, k=10, keep_chosen=True).recommended
        assert [bundle.id for bundle in found] == [bundle.id for bundle in one.recommended]
        assert [bundle.score for bundle in found] == pytest.approx([bundle.score for bundle in one.recommended])
    assert not any(calls)


def test_filters(indexed: Path, artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Denied bundles are left out of what the index finds; allowed ones, long lists and diversity are exact."""
    exact, recommender = load_recommender(artifact_of("crosscbr")), read_all(indexed)
    first = [one.id for one in exact.recommend_one(17, k=10).recommended]
    calls = exact_only(monkeypatch)

    def listed(**options: object) -> list[str]:
        return [one.id for one in recommender.recommend_one(17, **options).recommended]  # type: ignore[arg-type]

    assert listed(k=5, deny=first[:4]) == first[4:9] and not any(calls)
    assert listed(k=5, allow=first[3:5]) == first[3:5]
    assert len(listed(k=150, keep_chosen=True)) == 150
    assert listed(k=5, diversity=0.5) == [one.id for one in exact.recommend_one(17, k=5, diversity=0.5).recommended]
    out, filters = indexed.parent / "lists.parquet", {"deny": [5, 7], "keep_chosen": True}
    write_lists(recommender.artifact, out, 6, USERS, **filters)  # type: ignore[arg-type]
    frame = pl.read_parquet(out)
    write_lists(exact.artifact, out, 6, USERS, **filters)  # type: ignore[arg-type]
    assert frame.drop("score").equals(pl.read_parquet(out).drop("score"))
    write_lists(recommender.artifact, out, 6, USERS, allow=[1, 2], keep_chosen=True)
    assert set(pl.read_parquet(out)["bundle"]) == {1, 2}


def test_users_whom_the_index_cannot_serve_are_ranked_exactly(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who have chosen many bundles, and those for whom the clusters that are read hold too few."""
    recommender, expected = load_recommender(indexed), read_all(indexed).recommend(USERS.tolist(), k=10)
    calls = exact_only(monkeypatch)
    monkeypatch.setattr(index_module, "EXTRA", 2)
    chosen = np.array([len(neighbours(recommender.artifact.graph.ub.pairs, user)) for user in USERS])
    assert (chosen > 2).any()
    assert read_all(indexed).recommend(USERS.tolist(), k=10).drop("score").equals(expected.drop("score"))
    assert calls == [(chosen > 2).sum()]
    index = recommender.artifact.index
    assert index is not None
    index.searcher.nprobe = 1  # about 12 bundles
    assert recommender.recommend([3], k=10)["bundle"].len() == 10


def test_an_index_of_another_artifact_or_a_damaged_one_is_an_error(indexed: Path) -> None:
    about = (indexed / "index.json").read_text()
    (indexed / "index.json").write_text(json.dumps(json.loads(about) | {"vectors": "0" * 64}))  # those of another one
    with pytest.raises(InputError, match="index.json: the index of another artifact; remove it, or export"):
        load_recommender(indexed).recommend_one(17)
    (indexed / "index.json").write_text(about)
    content = (indexed / "index.faiss").read_bytes()
    (indexed / "index.faiss").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="index.faiss: is damaged"):
        load_recommender(indexed).recommend_one(17)
    (indexed / "index.faiss").unlink()
    with pytest.raises(InputError, match="index.faiss: cannot be read"):
        load_recommender(indexed).recommend_one(17)
    (indexed / "index.json").write_text("{}")
    with pytest.raises(InputError, match="index.json: is damaged"):
        load_recommender(indexed).recommend_one(17)


def test_an_index_belongs_to_the_folder_and_is_copied_with_it(indexed: Path, tmp_path: Path) -> None:
    assert is_artifact(indexed)
    copy = load_recommender(indexed).save(tmp_path / "copy")
    for mapped in (True, False):
        artifact = open_artifact(copy, mapped=mapped)
        assert artifact.index is not None
        about = json.loads((copy / "index.json").read_text())
        assert artifact.index.searcher.nprobe == about["probes"]
        assert about["vectors"] == artifact.about.files["vectors.safetensors"]
    assert open_artifact(copy).checksum == open_artifact(indexed).checksum


def test_without_faiss_lists_are_exact_and_an_index_is_an_error(
    indexed: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_all(indexed).recommend([17], k=5)
    monkeypatch.setitem(sys.modules, "faiss", None)
    recommender = load_recommender(indexed)
    assert recommender.artifact.index is None
    assert recommender.recommend([17], k=5).drop("score").equals(expected.drop("score"))
    code, _, err = run("export", "runs/none", "--out", "x", "--index")
    assert code == 2 and "this needs faiss, which is not installed: pip install 'clbr[ann]'" in err


def test_few_bundles_get_no_index(artifact_of: Callable[[str], Path]) -> None:
    with pytest.raises(UnsupportedError, match="150 bundles are ranked exactly in no more time; an index helps from"):
        add_index(artifact_of("crosscbr"))
    assert not (artifact_of("crosscbr") / "index.json").exists()
