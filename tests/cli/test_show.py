import io

from rich.console import Console
from rich.progress import Progress

from clbr.cli.show import Training
from clbr.training.config import compose
from clbr.training.loop import Epoch
from clbr.training.run import Counters


def test_time_left_is_told_within_long_epochs_and_right_after_resuming() -> None:
    """A run of 12 epochs, gone on with after 10; a step takes 10 seconds and an epoch four steps."""
    clock = [0.0]
    bar = Progress(console=Console(file=io.StringIO()), get_time=lambda: clock[0], auto_refresh=False)
    training = Training(bar)
    training.begin(compose("shop", "bprmf", changes={"epochs": 12}))
    (task,) = bar.tasks

    def steps(count: int) -> None:
        for step in range(1, count + 1):
            clock[0] += 10
            training.step(step, 4)

    steps(4)
    training.epoch(Epoch(11, {"bpr": 0.5}, {}, 40.0, {}), Counters(epoch=11))
    assert "best" not in training.told
    steps(3)
    assert task.time_remaining == 10


def test_task_view_and_constraint_are_told_apart_in_a_narrow_window() -> None:
    """CrossCBR with views has six terms, of which three sums are shown, below what matters most."""
    bar = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    training = Training(bar)
    training.begin(compose("shop", "crosscbr"))
    losses = {"bpr": 0.5, "contrastive_weight": 0.25, "view bpr": 0.125, "view contrast": 0.0625}
    losses |= {"constraint users": -0.01, "constraint bundles": -0.02}
    epoch = Epoch(12, losses, {"recall@20": 0.2512}, 3.25, {})
    training.epoch(epoch, Counters(epoch=12, best_epoch=11, best=0.2601))
    training.step(3, 17)
    (task,) = bar.tasks
    assert task.description.splitlines() == [
        "epoch 12: validation 25.12, best 26.01 at 11, 3.2 s an epoch, step 3/17",
        "  losses: task 0.7500, view 0.1875, constraint -0.0300",
    ]


def test_the_selection_model_is_told_apart_and_counted_apart() -> None:
    """It was gone on with after epoch 7; then the run itself begins at epoch 1."""
    bar = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    training = Training(bar)
    training.begin(compose("shop", "bprmf", changes={"epochs": 10}))
    (task,) = bar.tasks
    training.selection_epoch(Epoch(8, {"bpr": 0.5}, {}, 1.0, {}), Counters(epoch=8))
    assert training.told.startswith("selection model, epoch 8")
    assert (task.completed, task.total) == (1, 3)
    training.epoch(Epoch(1, {"bpr": 0.5}, {}, 1.0, {}), Counters(epoch=1))
    assert training.told.startswith("epoch 1")
    assert (task.completed, task.total) == (1, 10)
