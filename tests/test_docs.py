"""The pages are checked: commands and Python run, paths and links exist, and what they list is complete."""

import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import clbr
from clbr.cli import main
from conftest import ROOT
from docs_helpers import (
    DOCS,
    PAGES,
    README,
    all_options,
    anchors,
    blocks,
    commands,
    exists,
    find_command,
    links,
    options_of,
    parse_command,
    paths,
    resolve,
    runnable,
    spans,
)
from typed import Run

sys.path.append(str(ROOT / "docs"))
OLD_WORDS = (
    "artefact",
    "floors",
    "the desk",
    "newcomer",
    "--top",
    "--mask-tune",
    "mask_tune",
    "clbr.serve",
    "clbr.train.",
    "clbr.views",
    "clbr.losses",
)
PREPARED = (
    "data simulate --like tiny --out world",
    "train world --model crosscbr --epochs 3 --set learning_rate=0.01 --out runs/first",
    "train world --model lightgcn --epochs 2 --set learning_rate=0.01 --out runs/other",
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def docs(file: str) -> str:
    return (ROOT / "docs" / file).read_text()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages start from: a simulated world, two runs, three tables."""
    folder = tmp_path_factory.mktemp("prepared")
    carts = [f"c{c},k{(c + k) % 12}" for c in range(30) for k in range(5)]
    (folder / "carts.csv").write_text("\n".join(["customer,cart", *carts]))
    (folder / "bought.csv").write_text("\n".join(["customer,sku", *(f"c{c},s{c % 9}" for c in range(30))]))
    (folder / "contents.csv").write_text("\n".join(["cart,sku", *(f"k{k},s{k % 9}" for k in range(12))]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in PREPARED:
            patch.setattr(sys, "argv", ["clbr", *words.split()])
            try:
                main()
            except SystemExit as end:
                assert not end.code
    return folder


@pytest.mark.parametrize("page", [page for page in DOCS if runnable(page, "sh") or blocks(page, "python")], ids=name)
def test_the_commands_and_the_python_of_a_page_run(page: Path, prepared: Path, run: Run, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    for block in [*blocks(page, "toml"), *blocks(page, "python")]:
        if block.words:
            (tmp_path / block.words[0]).write_text(block.text)
    for text in runnable(page, "sh"):
        for words in commands(text):
            code, _, err = run(*words)
            assert code == 0, f"clbr {' '.join(words)}: {err}"
    if script := "\n".join(runnable(page, "python")):
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    for tests in tmp_path.glob("test_*.py"):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests.name]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert " passed" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_command_that_is_not_run_has_known_arguments_and_options(page: Path) -> None:
    shown = [words for block in blocks(page, "sh") if "no-run" in block.words for words in commands(block.text)]
    shown += [
        words for line in re.findall(r"^    (clbr .*)$", page.read_text(), re.MULTILINE) for words in commands(line)
    ]
    for words in shown:
        parse_command(words)
    for span in spans(page):
        if span.startswith("clbr ") and not span.split()[1].isupper():
            command, rest = find_command(span.split()[1:])
            for word in rest:
                assert not re.match(r"--[a-z]", word) or word in options_of(command), f"{span}: no option {word}"
        elif span.startswith("--") and page in (README, *DOCS):
            assert re.match(r"--[a-z0-9-]+", span)[0] in all_options(), f"no command has {span}"  # type: ignore[index]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_link_and_name_of_the_package_on_a_page_exists(page: Path) -> None:
    for span in spans(page):
        for path in paths(span):
            assert exists(path), f"{span}: {path} does not exist"
        for dotted in re.findall(r"(?<![\w/-])clbr(?:\.\w+)+", span):
            assert resolve(dotted) is not None
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{link}: does not exist"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_every_cell_that_the_results_name_has_a_record() -> None:
    for page in (ROOT / "results").glob("*.md"):
        for key in re.findall(r"\b[a-z]+-(?:original|clbr|casr)-\d+-[0-9a-f]{12}\b", page.read_text()):
            assert list((ROOT / "results").glob(f"*/cells/{key}.json")), f"{name(page)}: {key}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "dataflow.svg"], ids=name)
def test_old_words_do_not_come_back(page: Path) -> None:
    found = [word for word in OLD_WORDS if word in page.read_text().lower()]
    assert not found


def test_the_changelog_has_old_words_in_its_tables_only() -> None:
    lines = [line.lower() for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if not line.startswith("|")]
    assert not [line for line in lines if any(word in line for word in OLD_WORDS)]


def test_the_page_of_commands_is_made_from_their_help() -> None:
    from build_cli import build_page  # type: ignore[import-not-found]

    assert docs("cli.md") == build_page(), "docs/cli.md is out of date: run make docs"


def test_the_page_on_python_names_every_method_and_argument() -> None:
    page = docs("python.md")
    wanted = [name for name in vars(clbr.Recommender) if not name.startswith("_")]
    wanted += [*inspect.signature(clbr.fit).parameters, *inspect.signature(clbr.BundleDataset.from_frames).parameters]
    assert not [one for one in wanted if one != "settings" and not re.search(rf"\b{one}\b", page)]


def test_the_pages_on_experiments_and_views_name_every_setting() -> None:
    from clbr.counterfactual.config import ViewsConfig
    from clbr.experiments.spec import Spec, Variant

    pages = {
        "experiments.md": [*Spec.model_fields, *Variant.model_fields],
        "counterfactual.md": ViewsConfig.model_fields,
    }
    for page, fields in pages.items():
        assert not [field for field in fields if f"`{field}`" not in docs(page)]


def test_the_page_on_the_service_names_every_route_and_key() -> None:
    from clbr.inference import answers
    from clbr.service.app import make_app
    from clbr.service.pages import ServiceConfig
    from clbr.service.worker import Worker

    page = docs("service.md")
    paths = make_app(ServiceConfig(ROOT), Worker(ROOT)).openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    named = set(re.findall(r"(?:GET|POST) /[\w/.]+", page.split("## Routes")[1].split("Ids are texts")[0]))
    assert len(served) > 15 and named == served | {"GET /openapi.json"}
    for answer in (answers.Recommendations, answers.WhatIf, answers.Audience, answers.Explanation, answers.Suggestions):
        assert not [key for key in answer.model_fields if f"`{key}`" not in page], answer


def test_the_page_on_the_architecture_names_the_files_and_the_order_of_imports() -> None:
    package, page = ROOT / "src" / "clbr", docs("architecture.md")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `") and line.count("|") == 3]
    named = set()
    for where, what in rows[:-3]:  # the last three are the training strategies
        folders = re.findall(r"`([\w.]+)/?`", where)
        named |= set(folders)
        assert all((package / folder).exists() for folder in folders), where
        for file in re.findall(r"`(\w+(?:\.py|/))`", what):
            assert (package / folders[-1] / file).exists(), f"{folders[-1]}/{file}"
    assert named == {path.name for path in package.iterdir()} - {"__init__.py", "__pycache__", "py.typed"}
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    order = " < ".join(", ".join(sorted(layer.split(" | "))) for layer in reversed(layers))
    assert order in re.sub(r"\s+", " ", page)
