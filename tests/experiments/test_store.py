import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clbr import BundleDataset, InputError
from clbr.experiments.cell_run import keep_share
from clbr.experiments.store import Store
from invented import cells, done, fill, spec


def test_a_record_is_read_as_it_was_written(small: BundleDataset, tmp_path: Path) -> None:
    cell = cells(spec(), small)[0].cell
    store = Store(tmp_path / "cells").open(small)
    assert store.read(cell) is None
    assert not store.is_done(cell)
    record, tested = done(cell, small, 0.3)
    store.write(record, tested)
    assert store.read(cell) == record
    assert store.is_done(cell)
    stored = store.read_per_user(cell)
    assert np.array_equal(stored.found[: len(small.test)], tested.found)
    for name, values in tested.metrics.items():
        assert stored.metrics[name] == pytest.approx(values, abs=1e-6)


def test_a_failed_cell_is_not_done(small: BundleDataset, tmp_path: Path) -> None:
    variant_cells = cells(spec(seeds=1), small)
    store = fill(tmp_path / "cells", small, variant_cells, lambda one: "it broke")
    record = store.read(variant_cells[0].cell)
    assert record is not None
    assert (record.state, record.error) == ("failed", "it broke")
    assert not store.is_done(variant_cells[0].cell)


def test_cells_of_other_data_or_another_layout_are_an_error(small: BundleDataset, tmp_path: Path) -> None:
    folder = tmp_path / "cells"
    Store(folder).open(small)
    Store(folder).open(replace(small, name="renamed"))  # only the name differs
    with pytest.raises(InputError, match="holds cells of small, and small is other data"):
        Store(folder).open(replace(small, ui=small.ui[1:]))
    about = folder / "about.json"
    about.write_text(about.read_text().replace('"layout": 2', '"layout": 1'))
    with pytest.raises(InputError, match="another version \\(layout 1, this version reads layout 2\\)"):
        Store(folder).open(small)
    about.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        Store(folder).open(small)


def test_a_store_can_be_created_again_after_a_kill_during_its_creation(
    small: BundleDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clbr.experiments.store.write_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path / "cells").open(small)
    monkeypatch.undo()
    assert Store(tmp_path / "cells").open(small).is_started(small)


def test_a_folder_with_other_content_is_not_touched(small: BundleDataset, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other things"):
        Store(tmp_path).open(small)
    with pytest.raises(InputError, match="a file of this name"):
        Store(tmp_path / "thesis.txt").open(small)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_record_is_an_error_and_not_overwritten(small: BundleDataset, tmp_path: Path) -> None:
    variant_cells = cells(spec(seeds=1), small)
    store = fill(tmp_path / "cells", small, variant_cells, lambda one: 0.3)
    cell = variant_cells[0].cell
    path = tmp_path / "cells" / "cells" / f"{cell.key}.json"
    content = path.read_text()
    without = json.loads(content) | {"test": {}}
    for broken in ("", "null", content[:50], "[]", content.replace('"done"', '"dun"'), json.dumps(without)):
        path.write_text(broken)
        with pytest.raises(InputError, match=f"{cell.key}.json: is damaged .*; delete it to run the cell again"):
            store.read(cell)


def test_a_record_of_a_newer_version_is_not_called_damaged(small: BundleDataset, tmp_path: Path) -> None:
    variant_cells = cells(spec(seeds=1), small)
    store = fill(tmp_path / "cells", small, variant_cells, lambda one: 0.3)
    path = tmp_path / "cells" / "cells" / f"{variant_cells[0].cell.key}.json"
    record = json.loads(path.read_text())
    newer = record["config"] | {"train": record["config"]["train"] | {"gpus": 2}}
    for more in ({"gpu": 1}, {"config": newer}):
        path.write_text(json.dumps(record | more))
        with pytest.raises(InputError, match="made by another version .*; use that version, or choose another folder"):
            store.read(variant_cells[0].cell)


def test_damaged_results_by_user_are_one_error_wherever_the_damage_is(small: BundleDataset, tmp_path: Path) -> None:
    variant_cells = cells(spec(seeds=1), small)
    store = fill(tmp_path / "cells", small, variant_cells, lambda one: 0.3)
    cell = variant_cells[0].cell
    path = tmp_path / "cells" / "cells" / f"{cell.key}.npz"
    content = path.read_bytes()
    flipped = [content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :] for at in range(len(content))]
    errors = 0
    for broken in (b"", b"PK", b"hello", *(content[:at] for at in range(0, len(content), 7)), *flipped):
        path.write_bytes(broken)
        try:
            store.read_per_user(cell)  # some bytes, as those of dates, have no effect
        except InputError as error:
            assert f"delete {cell.key}.json to run the cell again" in str(error)
            errors += 1
    assert errors > len(flipped) / 2
    np.savez(path, found=np.zeros(1, np.uint8))
    with pytest.raises(InputError, match="lacks recall@20.*; delete"):
        store.read_per_user(cell)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="is missing or damaged; delete"):
        store.read_per_user(cell)


def test_a_record_made_with_another_default_is_an_error(small: BundleDataset, tmp_path: Path) -> None:
    variant_cells = cells(spec(seeds=1), small)
    store = fill(tmp_path / "cells", small, variant_cells, lambda one: 0.3)
    path = tmp_path / "cells" / "cells" / f"{variant_cells[0].cell.key}.json"
    record = json.loads(path.read_text())
    record["config"]["train"]["batch_size"] = 77
    path.write_text(json.dumps(record))
    message = f"made by another version, with batch_size 77, not 2048; delete it and .*{variant_cells[0].cell.key} to run the cell again"
    with pytest.raises(InputError, match=message):
        store.read(variant_cells[0].cell)
    path.write_text(json.dumps(record | {"state": "failed"}))  # a failed cell has no results to lose
    assert store.read(variant_cells[0].cell) is None
    assert store.failed_with_other_settings(variant_cells[0].cell)
    del record["config"]["train"]["batch_size"]  # a setting that was added later
    path.write_text(json.dumps(record))
    assert store.read(variant_cells[0].cell) is not None


def test_a_default_that_was_none_is_not_filled_in_from_today(
    small: BundleDataset, tmp_path: Path, changed_default: Callable[[str, object], None]
) -> None:
    before = cells(spec(seeds=1), small)[0].cell
    store = fill(tmp_path / "cells", small, cells(spec(seeds=1), small), lambda one: 0.3)
    path = tmp_path / "cells" / "cells" / f"{before.key}.json"
    record = json.loads(path.read_text())
    assert record["config"]["train"]["clip"] is None
    changed_default("clip", 1.0)
    cell = cells(spec(seeds=1), small)[0].cell
    assert (cell.key, cell.config.train.clip) == (before.key, 1.0)
    with pytest.raises(InputError, match="with clip None, not 1.0"):
        store.read(cell)
    del record["config"]["train"]["clip"]  # as in TOML, which has no None
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="with clip None, not 1.0"):
        store.read(cell)


def test_a_smaller_share_of_the_training_pairs_is_part_of_a_larger_one(tiny: object) -> None:
    dataset: BundleDataset = tiny.dataset  # type: ignore[attr-defined]
    fifth, half = (keep_share(dataset, share) for share in (0.2, 0.5))
    assert len(fifth.train) == round(0.2 * len(dataset.train))
    pairs = [{tuple(pair) for pair in one.train.tolist()} for one in (fifth, half, dataset)]
    assert pairs[0] < pairs[1] < pairs[2]
    assert np.array_equal(fifth.test, dataset.test)
    assert keep_share(dataset, 1.0) is dataset
