import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import BundleDataset, InputError, World, load, save
from clbr.models.registry import MODELS
from clbr.training import run as runs
from clbr.training.config import compose
from clbr.tuning import trial as trials
from clbr.tuning.search import search
from clbr.tuning.spaces import IDLE, grid_of, near
from clbr.tuning.study import Record, held, make_aim, read_record
from conftest import make_dataset

optuna = pytest.importorskip("optuna", reason="the extra sweep is not installed")
FEW = {"epochs": 3}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def look(shop: Path, folder: Path, trials: int, **options: object) -> Record:
    return search(folder, shop, "bprmf", trials, **({"changes": FEW} | options))  # type: ignore[arg-type]


def journal(folder: Path) -> list["optuna.trial.FrozenTrial"]:
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "journal.log"))
    return optuna.load_study(study_name=None, storage=optuna.storages.JournalStorage(backend)).get_trials()


def outcome(folder: Path) -> list[tuple[int, object, str, float | None]]:
    """What was tried in which turn and what came of it, without the trials that did not come to an end."""
    done = [trial for trial in journal(folder) if trial.state.name in ("COMPLETE", "PRUNED")]
    return [(trial.user_attrs["turn"], trial.params, trial.state.name, trial.value) for trial in done]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_grid_of_settings_that_it_takes(model: str) -> None:
    for key, values in grid_of(model).items():
        assert len(values) == len(set(values)) >= 2
        for value in values:
            compose("shop", model, changes={key: value})


@pytest.mark.parametrize("paradigm", ["clbr", "casr"])
def test_views_have_a_grid_too(paradigm: str) -> None:
    for key, values in grid_of("bgcn", paradigm).items():
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
def test_near_are_the_own_value_and_the_next_ones(values: list[object], own: object, found: list[object]) -> None:
    assert near(values, own) == found


def test_a_search_sets_out_from_its_preset(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[settings]\ninit = "xavier"\n[train]\nrate = 0.0007\n')
    record = look(shop, tmp_path / "study", 6, preset=str(tmp_path / "mine.toml"))
    tried = {turn: params for turn, params, *_ in outcome(tmp_path / "study")}
    assert tried[0] == {"learning_rate": 0.0007, "weight_decay": 0.0, "init": "xavier"} == record.first
    assert {params["rate"] for params in tried.values()} == {0.0003, 0.0007, 0.001}  # type: ignore[index]
    assert {params["weight_decay"] for params in tried.values()} <= {0.0, 1e-7}  # type: ignore[index]


def test_what_has_no_effect_is_not_searched(tiny: World) -> None:
    assert not {"ratio_ui", "ratio_bi"} & {*grid_of("lightgcn", "clbr")}
    free = make_aim(tiny.dataset, "bgcn", seed=0, paradigm="clbr", changes={"constraint": "none"})
    assert not {*IDLE["none"]} & {*free.grid}
    assert "ratio_bi" in free.grid
    logged = make_aim(tiny.dataset, "bgcn", seed=0, paradigm="clbr", changes={"constraint": "contrastive"})
    assert "tau" in logged.grid and not {"lambda_u", "lambda_b"} & {*logged.grid}


def test_a_search_of_views_trains_its_judge_once_and_finds_a_preset(shop: Path, tmp_path: Path) -> None:
    record = search(
        tmp_path / "study", shop, "crosscbr", 3, changes={"epochs": 2, "learning_rate": 0.01}, paradigm="clbr"
    )
    assert (record.done, record.failed, record.paradigm) == (3, 0, "clbr")
    assert len(list((tmp_path / "study").glob("selection-crosscbr-*"))) == 1
    found = compose(str(shop), "crosscbr", preset=str(tmp_path / "study" / "best.toml"), paradigm="clbr")
    assert found.views is not None
    assert found.views.ratio_ub == record.best_settings["ratio_ub"]
    assert found.train.rate == 0.01
    assert compose(str(shop), "crosscbr", preset=str(tmp_path / "study" / "best.toml")).views is None


def test_what_a_search_finds_is_a_preset_that_trains_to_the_same_value(shop: Path, tmp_path: Path) -> None:
    record = look(shop, tmp_path / "study", 4, seed=2)
    values = [value for _, _, _, value in outcome(tmp_path / "study")]
    assert len(values) == 4
    assert record.best == max(v for v in values if v is not None) > min(v for v in values if v is not None)
    config = compose(str(shop), "bprmf", preset=str(tmp_path / "study" / "best.toml"), seed=2)
    counters = runs.start(tmp_path / "run", config, load(shop))
    assert (counters.best, counters.best_epoch) == (record.best, record.best_epoch)


def test_trials_use_a_gpu_where_there_is_one(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find_device(name: str) -> torch.device:
        asked.append(name)
        return torch.device("cpu")

    monkeypatch.setattr(trials, "find_device", find_device)
    look(shop, tmp_path / "study", 2)
    assert asked == ["auto", "auto"]


def test_the_budget_is_recorded(shop: Path, tmp_path: Path, tiny: World) -> None:
    record = look(shop, tmp_path / "study", 12, changes={"epochs": 4, "metric": "ndcg@10"})
    assert read_record(tmp_path / "study") == record
    assert (record.model, record.metric, record.seed, record.asked, record.done) == ("bprmf", "ndcg@10", 0, 12, 12)
    assert record.fingerprint == tiny.dataset.fingerprint
    assert record.epochs == sum(len(trial.intermediate_values) for trial in journal(tmp_path / "study"))
    assert record.seconds > 0
    states = [state for _, _, state, _ in outcome(tmp_path / "study")]
    assert record.pruned == states.count("PRUNED") > 0
    assert record.epochs < 12 * 4  # pruning saved some


def test_a_search_gone_on_with_repeats_nothing_and_tries_what_it_would_have_tried(shop: Path, tmp_path: Path) -> None:
    look(shop, tmp_path / "straight", 12)
    look(shop, tmp_path / "parts", 3)
    first = outcome(tmp_path / "parts")
    heard: list[int] = []

    def stop() -> bool:
        heard.append(1)
        return len(heard) > 14  # in the midst of a trial

    stopped = look(shop, tmp_path / "parts", 12, stop=stop)
    assert 3 < stopped.done < 12
    assert look(shop, tmp_path / "parts", 12).done == 12
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "straight")
    assert outcome(tmp_path / "parts")[:3] == first
    tried = [str(params) for _, params, _, _ in outcome(tmp_path / "parts")]
    assert len(set(tried)) == 12
    before = (tmp_path / "parts" / "journal.log").read_bytes()
    assert look(shop, tmp_path / "parts", 12).done == 12  # nothing left to do
    assert (tmp_path / "parts" / "journal.log").read_bytes().count(b"\n") - before.count(b"\n") <= 1


def test_a_small_grid_is_tried_whole_and_no_further(shop: Path, tmp_path: Path) -> None:
    fixed = FEW | {"learning_rate": 0.01, "weight_decay": 0.0}
    look(shop, tmp_path / "study", 2, changes=fixed)
    tried = [params for _, params, _, _ in outcome(tmp_path / "study")]
    assert sorted(tried, key=str) == [{"init": "normal"}, {"init": "xavier"}]
    with pytest.raises(InputError, match="--trials 3: expected 1 to 2"):
        look(shop, tmp_path / "study", 3, changes=fixed)


def test_what_a_killed_process_leaves_in_the_journal_does_no_harm(shop: Path, tmp_path: Path) -> None:
    look(shop, tmp_path / "study", 2)
    before = outcome(tmp_path / "study")
    with (tmp_path / "study" / "journal.log").open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    (tmp_path / "study" / "journal.log.lock").symlink_to("journal.log")
    assert look(shop, tmp_path / "study", 3).done == 3
    assert outcome(tmp_path / "study")[:2] == before


def test_two_workers_share_a_study(shop: Path, tmp_path: Path) -> None:
    record = look(shop, tmp_path / "study", 6, workers=2, changes={"epochs": 10})
    assert (record.done, record.failed) == (6, 0)
    assert sorted(turn for turn, _, _, _ in outcome(tmp_path / "study")) == [0, 1, 2, 3, 4, 5]
    lines = [json.loads(line) for line in (tmp_path / "study" / "journal.log").read_text().splitlines()]
    reporters = {line["worker_id"] for line in lines if "intermediate_value" in line}
    assert len({line["worker_id"] for line in lines} - {lines[0]["worker_id"]}) == 2
    assert lines[0]["worker_id"] not in reporters  # whoever began it only looked on
    assert read_record(tmp_path / "study") == record


def test_test_pairs_make_no_difference(shop: Path, tmp_path: Path, tiny: World) -> None:
    whole = tiny.dataset
    parts = {name: getattr(whole, name) for name in ("users", "bundles", "items", "train", "validation", "ui", "bi")}
    known = {tuple(pair) for pair in np.concatenate([whole.train, whole.validation, whole.test]).tolist()}
    others = [(user, bundle) for user in range(30) for bundle in range(150) if (user, bundle) not in known]
    other = BundleDataset(name="other", test=np.array(others[:200]), **parts)
    look(shop, tmp_path / "one", 4)
    look(save(other, tmp_path / "data"), tmp_path / "two", 4)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of 2 trials came to an end; the last: the loss is"):
        look(shop, tmp_path / "study", 2, changes=FEW | {"learning_rate": 1e30})
    record = read_record(tmp_path / "study")
    assert (record.done, record.failed, record.best) == (2, 2, None)
    assert not (tmp_path / "study" / "best.toml").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": FEW | {"metric": "ndcg@20"}}, "is a study with metric recall@20, not ndcg@20"),
        ({"changes": {"epochs": 4}}, "is a study with epochs 3, not 4"),
        ({"changes": FEW | {"learning_rate": 0.1}}, "is a study with rate searched, not 0.1"),
        ({"seed": 1}, "is a study with seed 0, not 1"),
        ({"trials": 0}, "--trials 0: expected 1 to 60"),
        ({"trials": 61}, "--trials 61: expected 1 to 60"),
        ({"workers": 0}, "--workers 0"),
        ({"model": "lightgcn"}, "is a study with model bprmf, not lightgcn"),
        ({"model": "bprfm"}, "unknown model 'bprfm', did you mean 'bprmf'"),
        ({"changes": {"ratee": 1}}, "unknown setting 'ratee'"),
    ],
)
def test_a_study_is_gone_on_with_only_as_it_began(
    shop: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with held(tmp_path / "study", make_aim(load(shop), "bprmf", changes=FEW, seed=0)):
        pass
    before = (tmp_path / "study" / "study.json").read_bytes()
    words: dict[str, object] = {"model": "bprmf", "trials": 2, "changes": FEW} | options
    with pytest.raises(InputError, match=message):
        search(tmp_path / "study", shop, **words)  # type: ignore[arg-type]
    assert (tmp_path / "study" / "study.json").read_bytes() == before


def test_a_folder_that_is_no_study_or_in_use_or_of_other_data_is_refused(shop: Path, tmp_path: Path) -> None:
    aim = make_aim(load(shop), "bprmf", changes=FEW, seed=0)
    with held(tmp_path / "study", aim), pytest.raises(InputError, match="another process"):
        look(shop, tmp_path / "study", 2)
    with pytest.raises(InputError, match="is a study of tiny, and this is other data"):
        look(save(make_dataset(), tmp_path / "small"), tmp_path / "study", 2)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds other things"):
        look(shop, tmp_path / "thesis", 2)
    with pytest.raises(InputError, match="there is a file of this name"):
        look(shop, tmp_path / "thesis" / "thesis.tex", 2)
    (tmp_path / "study" / "study.json").write_text("{")
    with pytest.raises(InputError, match="not the record of a study"):
        look(shop, tmp_path / "study", 2)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_a_study_that_goes_on(shop: Path, tmp_path: Path, workers: int) -> None:
    words = f"{shop} --model bprmf --trials 50 --epochs 40 --workers {workers} --threads 1 --out {tmp_path / 'study'}"
    command = [sys.executable, "-c", "from clbr.cli import main; main()", "tune", *words.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "study" / "best.toml").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "go on: the same command again" in out
    assert "Traceback" not in err
    before, record = outcome(tmp_path / "study"), read_record(tmp_path / "study")
    assert 0 < record.done == len(before) < 50
    more = look(shop, tmp_path / "study", record.done + 1, changes={"epochs": 40})
    assert more.done == record.done + 1
    assert [done for done in outcome(tmp_path / "study") if done in before] == before


def test_without_optuna_the_message_names_the_extra(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # as python marks what cannot be imported
    with pytest.raises(InputError, match=r"this needs optuna, which is not installed: pip install 'clbr\[sweep\]'"):
        look(shop, tmp_path / "study", 2)
    assert not (tmp_path / "study").exists()
