from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import clbr
from clbr import InputError, Recommender, World, load_recommender
from typed import snapshot


def vectors(folder: Path, kind: str) -> np.ndarray:
    return pl.read_parquet(folder / f"{kind}.parquet")["vector"].to_numpy()


@pytest.mark.parametrize("model", ["crosscbr", "trilevel", "bprmf"])
def test_inner_products_of_the_files_are_the_scores(
    model: str, artifact_of: Callable[[str], Path], tmp_path: Path
) -> None:
    recommender = load_recommender(artifact_of(model))
    folder = recommender.save_vectors(tmp_path / "vectors")
    users, bundles = vectors(folder, "users"), vectors(folder, "bundles")
    assert users.shape[0] == 600 and bundles.shape[0] == 150 and users.dtype == np.float32
    scores = users @ bundles.T
    frame = recommender.recommend(k=150)
    found = scores[frame["user"].to_numpy(), frame["bundle"].to_numpy()]
    np.testing.assert_allclose(found, frame["score"].to_numpy(), rtol=1e-4, atol=1e-5)
    assert (folder / "items.parquet").exists() == (model != "bprmf")


def test_columns_and_types(recommender: Recommender, tmp_path: Path) -> None:
    folder = recommender.save_vectors(tmp_path / "vectors")
    width = sum(recommender.artifact.about.levels.values())
    users, bundles, items = (pl.read_parquet(folder / f"{kind}.parquet") for kind in ("users", "bundles", "items"))
    assert users.schema == {"id": pl.Int64, "vector": pl.Array(pl.Float32, width)}
    assert bundles.schema == {"id": pl.Int64, "name": pl.String, "vector": pl.Array(pl.Float32, width)}
    assert bundles["name"][0] == recommender.artifact.bundles.names[0]  # type: ignore[index]
    assert len(items) == 240 and items["id"].to_list() == list(range(240))
    nearest = recommender.similar_items(5, k=1).similar[0]
    one = items["vector"].to_numpy()
    unit = one / np.linalg.norm(one, axis=1, keepdims=True)
    assert unit[5] @ unit[int(nearest.id)] == pytest.approx(nearest.score, abs=1e-5)


def test_a_folder_of_vectors_is_replaced_with_force_and_nothing_else(recommender: Recommender, tmp_path: Path) -> None:
    recommender.save_vectors(tmp_path / "vectors")
    with pytest.raises(InputError, match="is not empty") as caught:
        recommender.save_vectors(tmp_path / "vectors")
    assert caught.value.arguments == ("vectors", "force")
    recommender.save_vectors(tmp_path / "vectors", force=True)
    (tmp_path / "vectors" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other things"):
        recommender.save_vectors(tmp_path / "vectors", force=True)


def test_a_model_without_vectors_says_so(tiny: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="popularity has no vectors: its scores are no inner products"):
        clbr.fit(tiny.dataset, "popularity", progress=False).save_vectors(tmp_path / "vectors")
    assert snapshot(tmp_path) == {} and not list(tmp_path.iterdir())
