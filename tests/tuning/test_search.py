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
from clbr.training import run as runs
from clbr.training.config import compose
from clbr.tuning import search as searches
from clbr.tuning.search import search
from clbr.tuning.study import StudyRecord, lock_study, make_study_settings, read_record
from conftest import make_dataset
from typed import Run

optuna = pytest.importorskip("optuna", reason="the extra sweep is not installed")
FEW = {"epochs": 3}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def tune(shop: Path, folder: Path, trials: int, **options: object) -> StudyRecord:
    return search(folder, shop, "bprmf", trials, **({"changes": FEW} | options))  # type: ignore[arg-type]


def journal(folder: Path) -> list["optuna.trial.FrozenTrial"]:
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "journal.log"))
    return optuna.load_study(study_name=None, storage=optuna.storages.JournalStorage(backend)).get_trials()


def outcome(folder: Path) -> list[tuple[int, object, str, float | None]]:
    """The completed and pruned trials: number, settings, state and value."""
    done = [trial for trial in journal(folder) if trial.state.name in ("COMPLETE", "PRUNED")]
    return [(trial.user_attrs["number"], trial.params, trial.state.name, trial.value) for trial in done]


def test_a_model_without_settings_to_search_is_an_error(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="popularity has no settings to search; choose another model") as error:
        search(tmp_path / "study", shop, "popularity", 1)
    assert error.value.arguments == ("model",)
    assert not (tmp_path / "study").exists()


def test_a_model_in_closed_form_is_searched_like_any_other(shop: Path, tmp_path: Path) -> None:
    record = search(tmp_path / "study", shop, "ease", 5)
    assert (record.finished, record.pruned, record.failed, record.epochs) == (5, 0, 0, 5)
    assert set(record.best_settings) == {"l2", "contents"}
    config = compose(str(shop), "ease", preset=str(tmp_path / "study" / "best.toml"))
    assert runs.start(tmp_path / "run", config, load(shop)).best == record.best


def test_a_search_starts_from_its_preset(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[settings]\ninit = "xavier"\n[train]\nlearning_rate = 0.0007\n')
    record = tune(shop, tmp_path / "study", 6, preset=str(tmp_path / "mine.toml"))
    tried = {number: params for number, params, *_ in outcome(tmp_path / "study")}
    assert tried[0] == {"learning_rate": 0.0007, "weight_decay": 0.0, "init": "xavier"} == record.first_trial
    assert {params["learning_rate"] for params in tried.values()} == {0.0003, 0.0007, 0.001}  # type: ignore[index]
    assert {params["weight_decay"] for params in tried.values()} <= {0.0, 1e-7}  # type: ignore[index]


def test_a_search_of_views_trains_its_selection_model_once_and_finds_a_preset(shop: Path, tmp_path: Path) -> None:
    record = search(
        tmp_path / "study", shop, "crosscbr", 3, changes={"epochs": 2, "learning_rate": 0.01}, paradigm="clbr"
    )
    assert (record.finished, record.failed, record.paradigm) == (3, 0, "clbr")
    assert len(list((tmp_path / "study").glob("selection-crosscbr-*"))) == 1
    found = compose(str(shop), "crosscbr", preset=str(tmp_path / "study" / "best.toml"), paradigm="clbr")
    assert found.views is not None
    assert found.views.ratio_ub == record.best_settings["ratio_ub"]
    assert found.train.learning_rate == 0.01
    assert compose(str(shop), "crosscbr", preset=str(tmp_path / "study" / "best.toml")).views is None


def test_the_best_settings_are_a_preset_that_trains_to_the_same_value(shop: Path, tmp_path: Path) -> None:
    record = tune(shop, tmp_path / "study", 4, seed=2)
    values = [value for _, _, _, value in outcome(tmp_path / "study")]
    assert len(values) == 4
    assert record.best == max(v for v in values if v is not None) > min(v for v in values if v is not None)
    best = tmp_path / "study" / "best.toml"
    assert "epochs" not in best.read_text()  # the search's limit is not a finding
    config = compose(str(shop), "bprmf", preset=str(best), seed=2, changes=FEW)
    counters = runs.start(tmp_path / "run", config, load(shop))
    assert (counters.best, counters.best_epoch) == (record.best, record.best_epoch)


def test_trials_use_a_gpu_if_there_is_one(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find_device(name: str) -> torch.device:
        asked.append(name)
        return torch.device("cpu")

    monkeypatch.setattr(searches, "find_device", find_device)
    tune(shop, tmp_path / "study", 2)
    assert asked == ["auto", "auto"]


def test_the_budget_is_recorded(shop: Path, tmp_path: Path, tiny: World) -> None:
    record = tune(shop, tmp_path / "study", 12, changes={"epochs": 4, "metric": "ndcg@10"})
    assert read_record(tmp_path / "study") == record
    assert (record.model, record.metric, record.seed, record.trials, record.finished) == ("bprmf", "ndcg@10", 0, 12, 12)
    assert record.fingerprint == tiny.dataset.fingerprint
    assert record.epochs == sum(len(trial.intermediate_values) for trial in journal(tmp_path / "study"))
    assert record.seconds > 0
    states = [state for _, _, state, _ in outcome(tmp_path / "study")]
    assert record.pruned == states.count("PRUNED") > 0
    assert record.epochs < 12 * 4  # pruning saved some


def test_a_resumed_search_repeats_nothing_and_tries_the_same_settings(shop: Path, tmp_path: Path) -> None:
    tune(shop, tmp_path / "straight", 12)
    tune(shop, tmp_path / "parts", 3)
    first = outcome(tmp_path / "parts")
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > 14  # during a trial

    stopped = tune(shop, tmp_path / "parts", 12, should_stop=should_stop)
    assert 3 < stopped.finished < 12
    assert tune(shop, tmp_path / "parts", 12).finished == 12
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "straight")
    assert outcome(tmp_path / "parts")[:3] == first
    tried = [str(params) for _, params, _, _ in outcome(tmp_path / "parts")]
    assert len(set(tried)) == 12
    before = (tmp_path / "parts" / "journal.log").read_bytes()
    assert tune(shop, tmp_path / "parts", 12).finished == 12  # nothing left to do
    assert (tmp_path / "parts" / "journal.log").read_bytes().count(b"\n") - before.count(b"\n") <= 1


def test_all_settings_of_a_small_space_are_tried_once(shop: Path, tmp_path: Path) -> None:
    fixed = FEW | {"learning_rate": 0.01, "weight_decay": 0.0}
    tune(shop, tmp_path / "study", 2, changes=fixed)
    tried = [params for _, params, _, _ in outcome(tmp_path / "study")]
    assert sorted(tried, key=str) == [{"init": "normal"}, {"init": "xavier"}]
    with pytest.raises(InputError, match="trials 3: expected 1 to 2"):
        tune(shop, tmp_path / "study", 3, changes=fixed)


def test_a_journal_with_an_incomplete_line_is_repaired(shop: Path, tmp_path: Path) -> None:
    tune(shop, tmp_path / "study", 2)
    before = outcome(tmp_path / "study")
    with (tmp_path / "study" / "journal.log").open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    (tmp_path / "study" / "journal.log.lock").symlink_to("journal.log")
    assert tune(shop, tmp_path / "study", 3).finished == 3
    assert outcome(tmp_path / "study")[:2] == before


def test_two_workers_share_a_study(shop: Path, tmp_path: Path) -> None:
    """Every trial runs in a process of its own; the process of the search trains nothing."""
    records: list[StudyRecord] = []
    record = tune(shop, tmp_path / "study", 4, workers=2, changes={"epochs": 10}, on_record=records.append)
    assert (record.finished, record.failed) == (4, 0)
    assert [one.finished for one in records] == sorted({one.finished for one in records})
    assert records[0].finished == 0 and records[-1] == record
    assert sorted(number for number, _, _, _ in outcome(tmp_path / "study")) == [0, 1, 2, 3]
    lines = [json.loads(line) for line in (tmp_path / "study" / "journal.log").read_text().splitlines()]
    reporters = {line["worker_id"] for line in lines if "intermediate_value" in line}
    assert len(reporters) == 4
    assert lines[0]["worker_id"] not in reporters
    assert read_record(tmp_path / "study") == record


def test_a_trial_whose_process_fails_ends_the_search_with_an_error_and_is_repeated(tiny: World, tmp_path: Path) -> None:
    data, moved = save(tiny.dataset, tmp_path / "data"), tmp_path / "moved"

    def before_trials(record: StudyRecord) -> None:
        data.rename(moved)

    with pytest.raises(InputError, match="study: trial [01] was interrupted: .*data.*; run the search again"):
        tune(data, tmp_path / "study", 5, workers=2, on_record=before_trials)
    assert read_record(tmp_path / "study").finished == 0
    moved.rename(data)
    assert tune(data, tmp_path / "study", 2).finished == 2


def test_test_pairs_do_not_influence_a_search(shop: Path, tmp_path: Path, tiny: World) -> None:
    dataset = tiny.dataset
    parts = {name: getattr(dataset, name) for name in ("users", "bundles", "items", "train", "validation", "ui", "bi")}
    known = {tuple(pair) for pair in np.concatenate([dataset.train, dataset.validation, dataset.test]).tolist()}
    others = [(user, bundle) for user in range(30) for bundle in range(150) if (user, bundle) not in known]
    other = BundleDataset(name="other", test=np.array(others[:200]), **parts)
    tune(shop, tmp_path / "one", 4)
    tune(save(other, tmp_path / "data"), tmp_path / "two", 4)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")


def test_a_trial_that_fails_is_recorded_and_the_search_continues(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all 2 trials failed; the last one: the loss is"):
        tune(shop, tmp_path / "study", 2, changes=FEW | {"learning_rate": 1e30})
    record = read_record(tmp_path / "study")
    assert (record.finished, record.failed, record.best) == (2, 2, None)
    assert not (tmp_path / "study" / "best.toml").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": FEW | {"metric": "ndcg@20"}}, "is a study with metric recall@20, not ndcg@20"),
        ({"changes": {"epochs": 4}}, "is a study with epochs 3, not 4"),
        ({"changes": FEW | {"learning_rate": 0.1}}, "is a study with learning_rate searched, not 0.1"),
        ({"seed": 1}, "is a study with seed 0, not 1"),
        ({"trials": 0}, "trials 0: expected 1 to 60"),
        ({"trials": 61}, "trials 61: expected 1 to 60"),
        ({"workers": 0}, "workers 0: expected 1 or more"),
        ({"model": "lightgcn"}, "is a study with model bprmf, not lightgcn"),
        ({"model": "bprfm"}, "unknown model 'bprfm', did you mean 'bprmf'"),
        ({"changes": {"ratee": 1}}, "unknown setting 'ratee'"),
    ],
)
def test_a_study_is_resumed_with_equal_settings_only(
    shop: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with lock_study(tmp_path / "study", make_study_settings(load(shop), "bprmf", changes=FEW, seed=0)):
        pass
    before = (tmp_path / "study" / "study.json").read_bytes()
    words: dict[str, object] = {"model": "bprmf", "trials": 2, "changes": FEW} | options
    with pytest.raises(InputError, match=message):
        search(tmp_path / "study", shop, **words)  # type: ignore[arg-type]
    assert (tmp_path / "study" / "study.json").read_bytes() == before


def test_a_folder_in_use_or_with_other_content_or_other_data_is_an_error(shop: Path, tmp_path: Path) -> None:
    settings = make_study_settings(load(shop), "bprmf", changes=FEW, seed=0)
    with lock_study(tmp_path / "study", settings), pytest.raises(InputError, match="another process"):
        tune(shop, tmp_path / "study", 2)
    with pytest.raises(InputError, match="is a study of tiny, which is other data"):
        tune(save(make_dataset(), tmp_path / "small"), tmp_path / "study", 2)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds other things"):
        tune(shop, tmp_path / "thesis", 2)
    with pytest.raises(InputError, match="there is a file of this name"):
        tune(shop, tmp_path / "thesis" / "thesis.tex", 2)
    (tmp_path / "study" / "study.json").write_text("{")
    with pytest.raises(InputError, match="is not the record of a study"):
        tune(shop, tmp_path / "study", 2)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_study_stopped_by_ctrl_c_is_resumed(shop: Path, tmp_path: Path, workers: int) -> None:
    words = f"{shop} --model bprmf --trials 50 --epochs 40 --workers {workers} --threads 1 --out {tmp_path / 'study'}"
    command = [sys.executable, "-c", "from clbr.cli import main; main()", "tune", *words.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "study" / "best.toml").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "resume: the same command again" in out
    assert "Traceback" not in err
    before, record = outcome(tmp_path / "study"), read_record(tmp_path / "study")
    assert 0 < record.finished == len(before) < 50
    more = tune(shop, tmp_path / "study", record.finished + 1, changes={"epochs": 40})
    assert more.finished == record.finished + 1
    assert [one for one in outcome(tmp_path / "study") if one in before] == before


def test_without_optuna_the_message_names_the_extra(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # marks a module that cannot be imported
    with pytest.raises(InputError, match=r"this needs optuna, which is not installed: pip install 'clbr\[sweep\]'"):
        tune(shop, tmp_path / "study", 2)
    assert not (tmp_path / "study").exists()


def test_a_search_with_a_wrong_address_writes_nothing(run: Run, tiny: World, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    shop = save(tiny.dataset, tmp_path / "shop")
    code, _, err = run("tune", shop, "--model", "bprmf", "--trials", "2", "--out", "study", "--on", "127.0.0.1:1")
    assert code == 2 and "no Ray cluster answers at 127.0.0.1:1" in err
    assert not Path("study").exists()
    words = ["tune", shop, "--model", "bprmf", "--trials", "1", "--epochs", "1", "--out", "study"]
    assert run(*words)[0] == 0
    assert run(*words, "--on", "127.0.0.1:1")[0] == 0  # no trial is left, so no cluster is needed
