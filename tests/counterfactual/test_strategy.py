"""Counterfactual training: what it minimises, what it keeps, and that it goes on to the same bits."""

import json
from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from clbr import InputError, World, save, simulate
from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.constraint import adaptive, constant
from clbr.counterfactual.strategy import Counterfactual, Original
from clbr.counterfactual.views import read_views
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Batch, Encoder, Triples
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from clbr.training import run as runs
from clbr.training.config import RunConfig, TrainConfig, compose
from clbr.training.loop import make_optimiser, train
from clbr.training.run_folder import BEST
from clbr.training.selection import SELECTION_SETTINGS, keep_selection
from conftest import make_dataset

GRAPH_MODELS = ["rgcn", "bundlenet", "bgcn", "crosscbr", "lightgcn"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def config(shop: Path, model: str = "crosscbr", paradigm: str = "clbr", **changes: object) -> RunConfig:
    return compose(str(shop), model, changes={"epochs": 3, "learning_rate": 0.01} | changes, paradigm=paradigm)


def literal_constraint(view: list[list[float]], fact: list[list[float]], lam: float, tau: float) -> float:
    """The paper's L_u, word by word: a sum over j, and lambda as the paper has it."""

    def apart(one: list[float], other: list[float]) -> float:
        return -exp(sum(a * b for a, b in zip(one, other, strict=True)) / tau)

    total = 0.0
    for i, mine in enumerate(fact):
        others = sum(apart(view[j], mine) for j in range(len(view)) if j != i)
        total += apart(view[i], mine) - lam * others
    return total / len(fact)


def unit_pairs(n: int = 7, d: int = 5) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(n)
    one, other = (torch.randn(n, d, generator=draw, dtype=torch.float64) for _ in range(2))
    return normalize(one).requires_grad_(), normalize(other).requires_grad_()


@pytest.mark.parametrize("tau", [1.0, 0.3])
@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_the_adaptive_constraint_is_the_papers_with_lambda_converted(tau: float, weight: float) -> None:
    view, fact = unit_pairs()
    expected = literal_constraint(view.tolist(), fact.tolist(), weight / (len(view) - 1), tau)
    assert adaptive(view, fact, weight, tau).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(lambda c, f: adaptive(c, f, weight, tau), (view, fact))


def test_the_gradient_of_the_adaptive_constraint_is_the_papers() -> None:
    """By differences of the literal transcription."""
    view, fact = unit_pairs(4, 3)
    (gradient,) = torch.autograd.grad(adaptive(view, fact, 1.5, 0.5), view)
    rows, step = view.tolist(), 1e-6
    for i, k in ((0, 0), (2, 1), (3, 2)):
        ends = []
        for move in (step, -step):
            moved = [list(row) for row in rows]
            moved[i][k] += move
            ends.append(literal_constraint(moved, fact.tolist(), 1.5 / 3, 0.5))
        assert gradient[i, k].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_one_node_alone_has_no_others() -> None:
    row = torch.tensor([[1.0, 0.0]])
    assert adaptive(row, row, 5.0).item() == pytest.approx(-exp(1))


def test_the_constant_constraint_by_hand() -> None:
    fact = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    view = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # D = -e and -1; the threshold is -exp(0.9)
    assert constant(view, fact).item() == pytest.approx((0 + exp(0.9) - 1) / 2)
    assert constant(view, fact, hinge=False).item() == pytest.approx((-exp(1) - 1) / 2)
    assert constant(view, fact, threshold=-2.0).item() == pytest.approx(0.5)
    assert constant(view, fact, distance="cosine").item() == pytest.approx((0 + 1 - 0.1) / 2)
    assert constant(view, fact, temperature=0.5, hinge=False).item() == pytest.approx((-exp(2) - 1) / 2)


def setting(model: str, tiny: World) -> tuple[Encoder, BundleGraph, Batch]:
    encoder = make_model(model, {}, tiny.dataset, torch_generator(0, "init"))
    assert isinstance(encoder, Encoder)
    pairs = torch.from_numpy(tiny.dataset.train[:40].astype(np.int64))
    triples = Triples(pairs[:, 0], pairs[:, 1], (pairs[:, 1:] + 1) % len(tiny.dataset.bundles))
    items = torch.from_numpy(tiny.dataset.ui[:40].astype(np.int64))
    return (
        encoder,
        BundleGraph.of(tiny.dataset),
        Batch(triples, Triples(items[:, 0], items[:, 1], (items[:, 1:] + 1) % 9)),
    )


def one_edit(tiny: World) -> EdgeEdits:
    return EdgeEdits(drop={"ub": tiny.dataset.train[:5], "ui": tiny.dataset.ui[:5], "bi": tiny.dataset.bi[:5]})


@pytest.mark.parametrize("model", GRAPH_MODELS)
def test_losses_are_the_task_on_both_graphs_and_the_constraint(model: str, tiny: World) -> None:
    encoder, graph, batch = setting(model, tiny)
    changes = {"omega_u": 0.3, "omega_b": 0.7, "view_weight": 0.5, "lambda_u": 2.0, "nodes": 0}
    views = compose("shop", "bgcn", paradigm="clbr", changes=changes).views
    assert views is not None and not views.nodes
    way = Counterfactual(views, [one_edit(tiny)], 0, TrainConfig())
    for name in type(encoder.config).model_fields:
        if name.endswith("dropout"):  # noise would hide what is compared
            object.__setattr__(encoder.config, name, 0.0)
    found = way.epoch(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    seen, other = (encoder.batch_graph(g, batch) for g in (graph, one_edit(tiny).apply(graph)))
    fact, counter = encoder.encode(seen), encoder.encode(other)
    expected = encoder.task_losses(fact, batch)
    expected |= {f"view {name}": 0.5 * term for name, term in encoder.task_losses(counter, batch).items()}
    users, bundles = batch.ub.users.unique(), batch.ub.positives.unique()
    sides = [(normalize(x.joined("users")[users]), normalize(x.joined("bundles")[bundles])) for x in (counter, fact)]
    expected["constraint users"] = 0.3 * adaptive(sides[0][0], sides[1][0], 2.0)
    expected["constraint bundles"] = 0.7 * adaptive(sides[0][1], sides[1][1], 1.0)
    assert list(found) == list(expected)
    for name, term in expected.items():
        assert found[name].item() == pytest.approx(term.item(), rel=1e-4), name


def test_the_contrastive_constraint_is_the_log_of_adaptives_two_parts(tiny: World) -> None:
    encoder, graph, batch = setting("lightgcn", tiny)
    views = ViewsConfig(omega_u=0.3, omega_b=0.7, nodes=0, constraint="contrastive", tau=0.2)
    found = Counterfactual(views, [one_edit(tiny)], 0, TrainConfig()).epoch(
        encoder, graph, 1, torch_generator(0, "noise")
    )(batch)
    fact, counter = encoder.encode(graph), encoder.encode(one_edit(tiny).apply(graph))
    for name, weight, side, nodes in (
        ("users", 0.3, "users", batch.ub.users),
        ("bundles", 0.7, "bundles", batch.ub.positives),
    ):
        here, there = (normalize(getattr(x.levels["bundle"], side)[nodes.unique()]) for x in (fact, counter))
        alike = (here @ there.T / 0.2).exp()
        expected = -(alike.diagonal() / alike.sum(1)).log().mean()
        assert found[f"constraint {name}"].item() == pytest.approx(weight * expected.item(), rel=1e-4)


def test_a_view_without_edits_is_the_factual_graph_and_is_as_near_as_can_be(tiny: World) -> None:
    encoder, graph, batch = setting("rgcn", tiny)
    way = Counterfactual(ViewsConfig(constraint="constant", hinge=False), [EdgeEdits()], 0, TrainConfig())
    losses = way.epoch(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    assert losses["view bpr"].item() == pytest.approx(losses["bpr"].item())
    assert losses["constraint users"].item() == pytest.approx(-0.1 * exp(1), rel=1e-5)
    assert way._view(graph, 1).ub is graph.ub


@pytest.mark.parametrize(
    ("views", "rate", "advice"),
    [
        ({"tau": 0.005}, 0.001, "the constraint alone is not finite: try a larger tau than 0.005"),
        ({"tau": 0.005, "constraint": "constant"}, 0.001, "try a larger tau than 0.005"),
        ({}, 1e30, "; try a lower rate"),
    ],
    ids=str,
)
def test_a_loss_that_is_no_number_names_what_may_mend_it(
    views: dict[str, object], rate: float, advice: str, tiny: World
) -> None:
    encoder, _, _ = setting("lightgcn", tiny)
    settings = TrainConfig(epochs=2, learning_rate=rate)
    way = Counterfactual(ViewsConfig.make(views), [one_edit(tiny)], 0, settings)
    with pytest.raises(InputError, match=f"{advice}$"):
        list(train(encoder, make_optimiser(encoder, settings), tiny.dataset, settings, 0, paradigm=way))


def test_the_constraint_warms_up(tiny: World) -> None:
    encoder, graph, batch = setting("rgcn", tiny)
    way = Counterfactual(ViewsConfig(warm_up=4), [one_edit(tiny)], 0, TrainConfig())
    terms = [
        way.epoch(encoder, graph, n, torch_generator(0, "noise"))(batch)["constraint users"].item() for n in (1, 4)
    ]
    assert terms[0] == pytest.approx(terms[1] / 4)


def test_the_task_on_the_view_may_learn_the_views_choices(tiny: World) -> None:
    encoder, graph, batch = setting("lightgcn", tiny)
    fresh = EdgeEdits(drop={"ub": tiny.dataset.train[:-1]})  # one choice is left
    views = ViewsConfig(view_positives=True, constraint="none")
    seen: list[Batch] = []
    task = type(encoder).task_losses
    encoder.task_losses = lambda e, b: seen.append(b) or task(encoder, e, b)  # type: ignore[method-assign,func-returns-value]
    Counterfactual(views, [fresh], 0, TrainConfig()).epoch(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    assert [len(b.ub.users) for b in seen] == [40, 1]
    assert [seen[1].ub.users.item(), seen[1].ub.positives.item()] == tiny.dataset.train[-1].tolist()


def test_a_view_that_leaves_nothing_to_choose_is_refused() -> None:
    """Three users, four bundles: in the view everyone has them all."""
    small = make_dataset()
    encoder = make_model("lightgcn", {}, small, torch_generator(0, "init"))
    missing = np.argwhere(np.bincount(small.train @ [4, 1], minlength=12).reshape(3, 4) == 0)
    views = ViewsConfig(view_positives=True, constraint="none")
    full = Counterfactual(views, [EdgeEdits(add={"ub": missing})], 0, TrainConfig())
    with pytest.raises(InputError, match="epoch 1: in its view whoever has a bundle has them all; lower ratio_ub"):
        full.epoch(encoder, BundleGraph.of(small), 1, torch_generator(0, "noise"))


def test_every_epoch_takes_one_of_the_views_and_all_get_their_turn(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)
    way = Counterfactual(ViewsConfig(), [one_edit(tiny) for _ in range(3)], 0, TrainConfig())
    assert {id(way._view(graph, number)) for number in range(1, 30)} == {id(g) for g in way.graphs.values()}
    assert len(way.graphs) == 3


@pytest.mark.parametrize("model", GRAPH_MODELS)
def test_every_graph_model_trains_with_views_and_is_told_apart_from_the_original(
    model: str, shop: Path, tmp_path: Path, tiny: World
) -> None:
    runs.start(tmp_path / "run", config(shop, model), tiny.dataset)
    first, *_, last = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert {"bpr", "view bpr", "constraint users", "constraint bundles"} <= set(last["losses"])
    assert first["measures"] and np.isfinite(list(first["measures"].values())).all()
    assert not last["measures"]
    views, records = read_views(tmp_path / "run")
    assert len(views) == len(records) == 4
    assert set(records[0]) == ({"ub"} if model == "lightgcn" else {"ub", "ui", "bi"})


@pytest.mark.parametrize(
    "changes",
    [{}, {"redraw": True}, {"sampler": "stochastic", "view_positives": True}, {"paradigm": "casr"}, {"nodes": 8}],
    ids=str,
)
def test_a_run_with_views_resumes_to_the_same_bits(
    changes: dict[str, object], shop: Path, tmp_path: Path, tiny: World
) -> None:
    settings = config(shop, **changes)  # type: ignore[arg-type]
    runs.start(tmp_path / "straight" / "run", settings, tiny.dataset)
    broken = tmp_path / "broken" / "run"
    stops = iter([True, False, True])  # within the selection model, and again within the run
    hooks = runs.Callbacks(stop=lambda: next(stops, False))
    runs.start(broken, settings, tiny.dataset, hooks)
    for _ in range(3):
        runs.resume(broken, hooks)
    for name in ("best/model.safetensors", "views.safetensors"):
        assert (tmp_path / "straight" / "run" / name).read_bytes() == (broken / name).read_bytes()


def test_views_without_edits_need_no_judge(shop: Path, tmp_path: Path, tiny: World) -> None:
    """The control: the same computation, on the factual graph alone."""
    nothing = {"ratio_ub": 0.0, "ratio_ui": 0.0, "ratio_bi": 0.0, "constraint": "none"}
    runs.start(tmp_path / "run", config(shop, **nothing), tiny.dataset)
    assert not list(tmp_path.glob("selection-*"))
    views, _ = read_views(tmp_path / "run")
    assert not any(view.touches(relation) for view in views for relation in ("ub", "ui", "bi"))


def test_the_selection_model_is_trained_once_and_found_again(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "one", config(shop), tiny.dataset)
    (selection,) = tmp_path.glob("selection-crosscbr-*")
    before = (selection / "metrics.jsonl").stat().st_mtime_ns
    runs.start(tmp_path / "two", config(shop, omega_u=0.5), tiny.dataset)
    assert (selection / "metrics.jsonl").stat().st_mtime_ns == before
    assert len(list(tmp_path.glob("selection-*"))) == 1
    runs.start(tmp_path / "three", config(shop, learning_rate=0.02), tiny.dataset)
    assert len(list(tmp_path.glob("selection-*"))) == 2
    assert json.loads((tmp_path / "one" / "selection.json").read_text())["run"] == selection.name


def test_who_stops_waiting_for_the_judge_can_go_on_later(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "one", config(shop), tiny.dataset)
    (selection,) = tmp_path.glob("selection-crosscbr-*")
    told: list[Path] = []
    with runs.locked(selection):
        hooks = runs.Callbacks(stop=lambda: bool(told), wait=told.append)
        assert runs.start(tmp_path / "two", config(shop, omega_u=0.5), tiny.dataset, hooks).epoch == 0
    assert told == [selection]
    assert runs.resume(tmp_path / "two").epoch == 3


def test_a_given_selection_run_is_used_and_a_wrong_one_refused(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "plain", config(shop, paradigm="original"), tiny.dataset)
    runs.start(tmp_path / "other", config(shop, "lightgcn", paradigm="original"), tiny.dataset)
    runs.start(tmp_path / "run", config(shop), tiny.dataset, selection=tmp_path / "plain")
    assert not list(tmp_path.glob("selection-*"))
    with pytest.raises(InputError, match="other: is a run of lightgcn, and pairs are to be judged by crosscbr"):
        runs.start(tmp_path / "bad", config(shop), tiny.dataset, selection=tmp_path / "other")
    elsewhere = simulate("tiny", seed=5).dataset
    with pytest.raises(InputError, match="plain: was trained on other data"):
        runs.start(tmp_path / "bad", config(shop), elsewhere, selection=tmp_path / "plain")
    with pytest.raises(InputError, match="add --paradigm clbr"):
        plain = config(shop, paradigm="original")
        runs.start(tmp_path / "bad", plain, tiny.dataset, selection=tmp_path / "plain")
    with pytest.raises(InputError, match="no run there"):
        runs.start(tmp_path / "bad", config(shop), tiny.dataset, selection=tmp_path / "nowhere")
    runs.start(tmp_path / "half", config(shop, paradigm="original"), tiny.dataset, runs.Callbacks(stop=lambda: True))
    with pytest.raises(InputError, match=r"half: is not trained to its end; first: clbr train --resume .*half"):
        runs.start(tmp_path / "bad", config(shop), tiny.dataset, selection=tmp_path / "half")
    assert not (tmp_path / "bad").exists()


def test_a_selection_run_with_damaged_weights_is_refused_before_anything_is_written(
    shop: Path, tmp_path: Path, tiny: World
) -> None:
    runs.start(tmp_path / "plain", config(shop, paradigm="original"), tiny.dataset)
    (tmp_path / "plain" / BEST).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="plain/best/model.safetensors: not the weights of this model"):
        runs.start(tmp_path / "run", config(shop), tiny.dataset, selection=tmp_path / "plain")
    assert not (tmp_path / "run").exists()


def test_what_a_killed_start_left_judges_no_other_run(shop: Path, tmp_path: Path, tiny: World) -> None:
    """Killed after its selection model was copied, and begun again without --selection."""
    runs.start(tmp_path / "clean" / "run", config(shop, "lightgcn"), tiny.dataset)
    runs.start(tmp_path / "plain", config(shop, "lightgcn", paradigm="original", learning_rate=0.5), tiny.dataset)
    (tmp_path / "again" / "run").mkdir(parents=True)
    keep_selection(tmp_path / "plain", tmp_path / "again" / "run")
    runs.start(tmp_path / "again" / "run", config(shop, "lightgcn"), tiny.dataset)
    one, other = ((tmp_path / way / "run" / "views.safetensors").read_bytes() for way in ("clean", "again"))
    assert one == other


@pytest.mark.parametrize("damage", ["missing", "{", "[]", '{"model": "lightgcn", "settings": 3}'])
def test_a_run_that_lost_what_judges_its_pairs_does_not_go_on_with_another(
    damage: str, shop: Path, tmp_path: Path, tiny: World
) -> None:
    heard: list[int] = []
    hooks = runs.Callbacks(epoch=lambda epoch, counters: heard.append(epoch.number), stop=lambda: len(heard) == 1)
    runs.start(tmp_path / "run", config(shop, "lightgcn", redraw=True), tiny.dataset, hooks)
    about = tmp_path / "run" / SELECTION_SETTINGS
    about.unlink() if damage == "missing" else about.write_text(damage)
    with pytest.raises(InputError, match=r"run/selection.json: (no such file|is damaged); put it back, or train anew"):
        runs.resume(tmp_path / "run")


@pytest.mark.parametrize("changes", [{}, {"sampler": "stochastic"}, {"ratio_ui": 0.1}, {"redraw": True}], ids=str)
def test_views_that_edit_nothing_need_no_judge_and_change_nothing(
    changes: dict[str, object], shop: Path, tmp_path: Path, tiny: World
) -> None:
    """Lightgcn does not look at user-item pairs, so that ratio edits nothing either."""
    none = {"ratio_ub": 0.0, "ratio_ui": 0.0, "ratio_bi": 0.0}
    runs.start(tmp_path / "run", config(shop, "lightgcn", **none | changes), tiny.dataset)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    losses = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])["losses"]
    assert losses["view bpr"] == pytest.approx(losses["bpr"])
    views, _ = read_views(tmp_path / "run")
    assert not any(view.touches(relation) for view in views for relation in ("ub", "ui", "bi"))


def test_the_original_way_is_the_models_own_losses(tiny: World) -> None:
    encoder, graph, batch = setting("bgcn", tiny)
    found = Original().epoch(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    assert found["bpr"].item() == encoder.losses(graph, batch, torch_generator(0, "noise"))["bpr"].item()


@pytest.mark.parametrize(
    ("paradigm", "changes", "message"),
    [
        ("clbr", {"ratio_ub": 1.0}, "ratio_ub = 1.0"),
        ("clbr", {"ratio_ui": -0.1}, "ratio_ui = -0.1"),
        ("clbr", {"tau": 0.0}, "tau = 0.0"),
        ("clbr", {"omega": 1.0}, r"unknown setting 'omega' of crosscbr, did you mean 'omega_u'\?|omega_b"),
        ("clbr", {"constraint": "none", "view_weight": 0.0}, "the views have no part in it"),
        ("clbr", {"omega_u": 0.0, "omega_b": 0.0, "view_weight": 0.0}, "the views have no part in it"),
        ("casr", {"ratio_bi": 0.1}, "casr edits user-bundle pairs only"),
        ("clbr", {"distance": "manhattan"}, "distance = 'manhattan'"),
        ("original", {"omega_u": 1.0}, "'omega_u' is a setting of counterfactual views: add --paradigm clbr"),
        ("clrb", {}, r"unknown paradigm 'clrb', did you mean 'clbr'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    paradigm: str, changes: dict[str, object], message: str, shop: Path
) -> None:
    with pytest.raises(InputError, match=message):
        config(shop, paradigm=paradigm, **changes)


def test_a_preset_says_what_else_differs_with_views(tmp_path: Path) -> None:
    preset = str(tmp_path / "own.toml")
    Path(preset).write_text(
        "[settings]\nlayers = 3\n[train]\nrate = 0.003\n[views]\nrate = 0.002\nlayers = 1\nomega_u = 0.5\n"
    )
    original, clbr = (compose("shop", "bgcn", preset=preset, paradigm=way) for way in ("original", "clbr"))
    assert (original.train.rate, original.settings["layers"]) == (0.003, 3)
    assert (clbr.train.rate, clbr.settings["layers"]) == (0.002, 1)
    assert clbr.views is not None and clbr.views.omega_u == 0.5
    assert compose("shop", "bgcn", preset=preset, paradigm="casr").train.rate == 0.003
    assert compose("shop", "bgcn", preset=preset, paradigm="clbr", changes={"learning_rate": 0.01}).train.rate == 0.01
    Path(preset).write_text("[views]\nomega = 0.1\n")
    with pytest.raises(InputError, match="unknown setting 'omega' of bgcn, did you mean 'omega_[ub]'"):
        compose("shop", "bgcn", preset=preset, paradigm="clbr")


def test_the_views_of_a_preset_go_to_the_paradigm_they_are_for(tmp_path: Path) -> None:
    casr, clbr = (str(tmp_path / name) for name in ("casr.toml", "clbr.toml"))
    Path(casr).write_text('[views]\nsampler = "casr"\nratio_ub = 0.03\n')
    Path(clbr).write_text("[views]\nratio_ub = 0.07\n")
    for preset, paradigm, ratio in ((casr, "casr", 0.03), (clbr, "clbr", 0.07), (clbr, "casr", 0.1)):
        views = compose("shop", "bgcn", preset=preset, paradigm=paradigm).views
        assert views is not None and views.ratio_ub == ratio
    assert compose("shop", "bgcn", preset=casr).views is None
    with pytest.raises(
        InputError, match=r"casr.toml: its views are those of casr: add --paradigm casr, or take its \[views\]"
    ):
        compose("shop", "bgcn", preset=casr, paradigm="clbr")
    mixed = {"sampler": "casr", "ratio_ui": 0.0, "ratio_bi": 0.0}
    views = compose("shop", "bgcn", changes=mixed, paradigm="clbr").views
    assert views is not None and (views.sampler, views.constraint) == ("casr", "adaptive")


@pytest.mark.parametrize("model", ["bprmf", "dam"])
def test_a_model_without_a_graph_is_refused(model: str, shop: Path) -> None:
    with pytest.raises(InputError, match=f"{model} makes no vectors of a graph, and clbr needs a model that does"):
        config(shop, model)


def test_settings_of_views_survive_their_file(shop: Path, tmp_path: Path) -> None:
    wanted = config(shop, ratio_ub=0.02, omega_u=0.3)
    (tmp_path / "config.toml").write_text(wanted.to_toml())
    assert RunConfig.from_toml(tmp_path / "config.toml") == wanted
