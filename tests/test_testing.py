"""The contract suite as a user runs it: a model and a test file outside of the project, with clbr and pytest only."""

import os
import subprocess
import sys

import pytest

MODEL = '''
import torch
from clbr.models.base import COMMON_SPACE, ClosedForm, Encoder, ModelConfig, VectorScorer
from clbr.models.embeddings import Embeddings, Level
from clbr.config import Config


class Mean(Encoder):
    """A user is the mean of the user's bundles."""

    config_class, relations = ModelConfig, ("ub",)

    def __init__(self, config, users, bundles, items):
        super().__init__(config)
        self.bundles = torch.nn.Parameter(torch.empty(bundles, config.dim))

    def encode(self, graph, generator=None):
        return Embeddings({"only": Level(graph.ub.mean @ self.bundles, self.bundles)})


class Unseeded(Mean):
    def initialise(self, generator):
        torch.nn.init.normal_(self.bundles, 0.0, 0.1)


class Numbered(Mean):
    def encode(self, graph, generator=None):
        rank = torch.arange(len(self.bundles))[:, None] / len(self.bundles)
        return Embeddings({"only": Level(graph.ub.mean @ self.bundles, self.bundles + rank)})


class Unused(Mean):
    search_space = COMMON_SPACE | {"dim": [0]}

    def __init__(self, config, users, bundles, items):
        super().__init__(config, users, bundles, items)
        self.items = torch.nn.Parameter(torch.empty(items, config.dim))


class Forgetful(Mean):
    def initialise(self, generator):
        super().initialise(generator)
        self.offset = torch.rand(1, generator=generator)

    def encode(self, graph, generator=None):
        return Embeddings({"only": Level(graph.ub.mean @ self.bundles + self.offset, self.bundles)})


class Wide(Mean):
    def encode(self, graph, generator=None):
        everyone = self.bundles.mean(0)
        return Embeddings({"only": Level(graph.ub.mean @ self.bundles + everyone, self.bundles)})


class Global(Mean):
    def encode(self, graph, generator=None):
        return Embeddings({"only": Level(graph.ub.mean @ self.bundles + len(graph.ub.pairs) / 1000, self.bundles)})


class Divided(Mean):
    def encode(self, graph, generator=None):
        return Embeddings({"only": Level((graph.ub.plain @ self.bundles) / graph.ub.left_degrees[:, None], self.bundles)})


class Counts(ClosedForm):
    """Popularity among these pairs."""

    config_class, relations = Config, ()

    def __init__(self, config, users, bundles, items):
        super().__init__(config)
        self.users, self.counts = users, torch.nn.Parameter(torch.zeros(bundles), requires_grad=False)

    def pairs(self, dataset):
        return dataset.train

    def solve(self, dataset):
        self.counts.zero_()
        for _, bundle in self.pairs(dataset).tolist():
            self.counts[bundle] += 1

    def scorer(self, graph):
        return VectorScorer(torch.ones(self.users, 1), self.counts[:, None])


class Leaky(Counts):
    def pairs(self, dataset):
        return dataset.test
'''

TESTS = """
import clbr.testing
import own


class TestMean(clbr.testing.ModelContract):
    model = own.Mean
    settings = {"dim": 16}
    train_settings = {"learning_rate": 0.02}
    beats_popularity = 1.2
    extreme_settings = [{"dim": 1}, {"init": "normal"}]


class TestCounts(clbr.testing.ModelContract):
    model = own.Counts
    beats_popularity = None


class Quick(clbr.testing.ModelContract):
    beats_popularity = None
    train_settings = {"epochs": 3, "learning_rate": 0.05}
"""
BROKEN = {
    "Unseeded": "two trainings with the same seed differ",
    "Numbered": "the scores depend on how bundles are numbered",
    "Unused": "no gradient reaches items",
    "Forgetful": "the loaded model scores differently",
    "Wide": "a user and a bundle without edges change the scores of others",
    "Global": "users of level only depend on unconnected edges",
    "Divided": "the scores of the new user or bundle are not finite",
    "Leaky": "the scores depend on validation or test pairs",
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of one pytest process for sound and broken models, in a folder outside of the project."""
    folder = tmp_path_factory.mktemp("own")
    broken = "".join(f"\n\nclass Test{name}(Quick):\n    model = own.{name}\n" for name in BROKEN)
    (folder / "own.py").write_text(MODEL)
    (folder / "test_own.py").write_text(TESTS + broken)
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "--rootdir", str(folder), "."]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def outcomes(output: str, model: str) -> dict[str, str]:
    """PASSED, FAILED or SKIPPED for each test of a model."""
    lines = [line.split() for line in output.splitlines() if line.startswith(f"test_own.py::Test{model}::")]
    return {words[0].split("::")[2]: words[1] for words in lines if words[1] in ("PASSED", "FAILED", "SKIPPED")}


def test_a_sound_model_of_ones_own_passes_every_test(output: str) -> None:
    found = outcomes(output, "Mean")
    assert len(found) == 14
    skipped = {name for name, outcome in found.items() if outcome == "SKIPPED"}
    assert skipped == {
        "test_an_edge_further_away_than_the_layers_changes_no_embedding",
        "test_a_change_of_an_own_vector_is_the_change_of_its_levels",
    }
    assert "FAILED" not in found.values()


def test_what_does_not_apply_to_a_closed_form_model_is_skipped_with_a_reason(output: str) -> None:
    found = outcomes(output, "Counts")
    assert sorted(found.values()).count("SKIPPED") == 5
    assert "FAILED" not in found.values()
    assert "the model is not an Encoder" in output
    assert "the model has no own vectors" in output
    assert "a closed-form model has no loss, and beats_popularity is None" in output


@pytest.mark.parametrize(("model", "message"), list(BROKEN.items()))
def test_a_broken_model_fails_with_a_message_that_says_why(model: str, message: str, output: str) -> None:
    assert "FAILED" in outcomes(output, model).values()
    assert f"AssertionError: {message}" in output


def test_a_search_space_with_a_value_that_is_not_allowed_fails(output: str) -> None:
    assert outcomes(output, "Unused")["test_the_search_space_holds_valid_settings"] == "FAILED"
    assert "search_space: dim = 0" in output


def test_importing_the_suite_does_not_import_pytest() -> None:
    """pytest is needed only where a test is skipped."""
    check = "import clbr.testing, sys; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
