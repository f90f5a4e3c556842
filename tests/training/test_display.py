import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from clbr.training.config import compose
from clbr.training.display import TrainingDisplay, training_display
from clbr.training.loop import Epoch
from clbr.training.run import Counters


def test_the_time_left_is_updated_within_epochs_and_right_after_resuming() -> None:
    """A run of 12 epochs, resumed after 10; a step takes 10 seconds and an epoch four steps."""
    clock = [0.0]
    bar = Progress(console=Console(file=io.StringIO()), get_time=lambda: clock[0], auto_refresh=False)
    display = TrainingDisplay(bar)
    display.begin(compose("shop", "bprmf", changes={"epochs": 12}))
    (task,) = bar.tasks

    def steps(count: int) -> None:
        for step in range(1, count + 1):
            clock[0] += 10
            display.on_step(step, 4)

    steps(4)
    display.on_epoch(Epoch(11, {"bpr": 0.5}, {}, 40.0, {}), Counters(epoch=11))
    assert "best" not in display.summary
    steps(3)
    assert task.time_remaining == 10


def test_losses_are_summed_to_task_view_and_constraint() -> None:
    """CrossCBR with views has six terms, of which three sums are shown in a line below the results."""
    bar = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    display = TrainingDisplay(bar)
    display.begin(compose("shop", "crosscbr"))
    losses = {"bpr": 0.5, "contrast": 0.25, "view bpr": 0.125, "view contrast": 0.0625}
    losses |= {"constraint users": -0.01, "constraint bundles": -0.02}
    epoch = Epoch(12, losses, {"recall@20": 0.2512}, 3.25, {})
    display.on_epoch(epoch, Counters(epoch=12, best_epoch=11, best=0.2601))
    display.on_step(3, 17)
    (task,) = bar.tasks
    assert task.description.splitlines() == [
        "epoch 12: validation 25.12, best 26.01 at 11, 3.2 s per epoch, step 3/17",
        "  losses: task 0.7500, view 0.1875, constraint -0.0300",
    ]


def test_epochs_of_the_selection_model_are_labelled_and_counted_separately() -> None:
    """The selection model was resumed after epoch 7; then the run itself starts at epoch 1."""
    bar = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    display = TrainingDisplay(bar)
    display.begin(compose("shop", "bprmf", changes={"epochs": 10}))
    (task,) = bar.tasks
    display.on_selection_epoch(Epoch(8, {"bpr": 0.5}, {}, 1.0, {}), Counters(epoch=8))
    assert display.summary.startswith("selection model, epoch 8")
    assert (task.completed, task.total) == (1, 3)
    display.on_epoch(Epoch(1, {"bpr": 0.5}, {}, 1.0, {}), Counters(epoch=1))
    assert display.summary.startswith("epoch 1")
    assert (task.completed, task.total) == (1, 10)
    display.on_wait(Path("runs/selection-bprmf-1"))
    assert task.description == "waiting for another process, which trains selection-bprmf-1"


def test_callbacks_update_the_display_and_call_further_functions() -> None:
    display = TrainingDisplay(Progress(console=Console(file=io.StringIO()), auto_refresh=False))
    display.begin(compose("shop", "ease"))
    numbers: list[int] = []
    callbacks = display.callbacks(lambda: True, lambda epoch, counters: numbers.append(epoch.number))
    callbacks.on_epoch(Epoch(1, {}, {"recall@20": 0.25}, 1.0, {}), Counters(1, 1, 0.25))
    assert callbacks.should_stop()
    assert numbers == [1]
    (task,) = display.bar.tasks
    assert task.description == "epoch 1: validation 25.00, best 25.00 at 1, 1.0 s per epoch,"


@pytest.mark.parametrize(
    ("enabled", "terminal", "shown"),
    [(None, False, False), (None, True, True), (False, True, False), (True, False, True)],
)
def test_the_display_is_enabled_on_a_terminal_unless_it_is_said_otherwise(
    enabled: bool | None, terminal: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    with training_display(enabled) as display:
        display.begin(compose("shop", "bprmf"))
    assert display.bar.disable is not (shown and terminal)
    assert display.prints_lines is (shown and not terminal)
    assert ("bprmf" in stream.getvalue()) is (shown and terminal)


def test_in_a_file_or_a_pipe_an_enabled_display_prints_a_line_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for enabled, lines in ((True, ["epoch 3: 1.0 s per epoch", "epoch 3: 1.0 s per epoch, step 3/9"]), (None, [])):
        stream, now = io.StringIO(), [100.0]
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr("clbr.training.display.monotonic", lambda now=now: now[0])
        with training_display(enabled) as display:
            display.begin(compose("shop", "bprmf"))
            for number in (1, 2, 3):
                now[0] += 1.0
                display.on_epoch(Epoch(number, {"bpr": 0.5}, {}, 1.0, {}), Counters(epoch=number))
            for step in (1, 2, 3, 4):
                now[0] += 1.0
                display.on_step(step, 9)
        assert [line for line in stream.getvalue().splitlines() if line] == lines
