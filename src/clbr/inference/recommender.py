"""Recommender: the one object that answers, in the user's own ids. Python, the command line and HTTP all ask it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import Backend, BundleDataset
from clbr.data.folder import as_dataset
from clbr.data.frames import check_backend, read_ids, read_one_id, read_pairs
from clbr.data.pairs import Kind
from clbr.errors import InputError
from clbr.evaluation.agreement import Agreement
from clbr.evaluation.baselines import best_baseline
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.files import as_path
from clbr.inference import audience as audience_
from clbr.inference import explain as explain_
from clbr.inference import recommend as recommend_
from clbr.inference import similar as similar_
from clbr.inference import suggest as suggest_
from clbr.inference import update as update_
from clbr.inference import whatif as whatif_
from clbr.inference.answers import (
    Answer,
    Audience,
    Explanation,
    NewBundleAudience,
    RecommendationBatch,
    Recommendations,
    Similar,
    Suggestions,
    WhatIf,
)
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.card import measure, write_card
from clbr.inference.edits_by_id import Edits
from clbr.inference.export import save_artifact
from clbr.inference.find import Directory, FoundNodes
from clbr.inference.lists import recommend_frame
from clbr.inference.vectors import save_vectors

Id = str | int
T = TypeVar("T", bound=Answer)
Ids = Sequence[Id]


class Recommender:
    """A trained recommender. Users, bundles and items go by the ids of the data; frames come as the data's kind.

    `recommend`, `score` and `evaluate` work for every model. What-if, audience, explain, suggest and unseen users need
    a model that uses a graph; similar bundles and items need one with vectors. Other models raise `clbr.InputError`.
    """

    def __init__(self, artifact: Artifact, dataset: BundleDataset | None = None, backend: Backend = "polars") -> None:
        self.artifact, self.dataset = artifact, dataset
        self.backend = dataset.backend if dataset is not None else check_backend(backend)

    def __repr__(self) -> str:
        about = self.artifact.about
        return f"Recommender({about.model}, {about.paradigm}, seed {about.seed}, on {about.data})"

    def _framed(self, answer: T) -> T:
        """The answer, whose frames are of the data's kind and hold its ids."""
        integer = [kind for kind, nodes in self.artifact.nodes.items() if nodes.ids is None or nodes.integer_ids]
        return answer.for_frames(self.backend, integer)

    def recommend(self, users: Iterable[Id] | Id | None = None, k: int = 20) -> Any:
        """The k best bundles of some users (all, if None) as a frame: user, bundle, name, rank, score.

        If users have names, the column user_name follows user. Bundles that a user has chosen in training are left out.
        An unknown user raises `InputError`.
        """
        if users is None:
            indices = np.arange(self.artifact.about.users)
        else:
            indices = np.array([self.artifact.users.index(user) for user in read_ids(users, "users")], np.int64)
        return recommend_frame(self.artifact, indices, k, self.backend)

    def recommend_one(
        self,
        user: Id | None = None,
        *,
        likes_items: Ids = (),
        likes_bundles: Ids = (),
        k: int = 20,
        keep_chosen: bool = False,
        allow: Collection[Id] | None = None,
        deny: Collection[Id] = (),
        diversity: float = 0.0,
    ) -> Recommendations:
        """The list of one user, or of an unseen user who likes these items and bundles, as an answer.

        `keep_chosen` lists chosen bundles too, `allow` and `deny` restrict the bundles, and `diversity` from 0 to 1
        trades score for bundles that share fewer items.
        """
        answer = recommend_.recommend(
            self.artifact,
            None if user is None else read_one_id(user, "user"),
            likes_items=read_ids(likes_items, "likes_items"),
            likes_bundles=read_ids(likes_bundles, "likes_bundles"),
            k=k,
            keep_chosen=keep_chosen,
            allow=None if allow is None else read_ids(allow, "allow"),
            deny=read_ids(deny, "deny"),
            diversity=diversity,
        )
        return self._framed(answer)

    def recommend_batch(self, users: Sequence[Id], k: int = 20) -> RecommendationBatch:
        """The lists of several users as answers, in their order."""
        return self._framed(recommend_.recommend_batch(self.artifact, read_ids(users, "users"), k))

    def score(self, users: Iterable[Id], bundles: Iterable[Id]) -> NDArray[np.float32]:
        """The scores of user-bundle pairs, in their order; higher is better, comparable within a user only."""
        return recommend_.score_pairs(self.artifact, read_ids(users, "users"), read_ids(bundles, "bundles"))

    def evaluate(
        self,
        split: Literal["validation", "test"] = "test",
        ks: Iterable[int] = (20, 40),
        *,
        data: BundleDataset | str | Path | None = None,
        baseline: bool = True,
    ) -> Evaluation:
        """Metrics on a split by full ranking, of what is recommended; beside them those of the best baseline.

        The baseline and its settings are chosen on validation; `result.baseline.notes` says what was left out.

        A recommender that was opened from a folder holds no validation and test pairs: give it the data set.
        """
        dataset = self.dataset if data is None else as_dataset(data)
        if dataset is None:
            raise InputError("a saved recommender holds training pairs only: give the data set to evaluate on", "data")
        if dataset.fingerprint != self.artifact.about.fingerprint:
            raise InputError(f"{dataset.name}: is not the data set that this recommender was trained on", "data")
        result = evaluate(recommend_.KnownScorer(self.artifact), dataset, split=split, ks=ks)
        metric = self.artifact.about.metric
        beside = best_baseline(dataset, split=split, ks=result.ks, metric=metric) if baseline else None
        return replace(result, baseline=beside, backend=self.backend)

    def whatif(
        self,
        user: Id,
        *,
        add_items: Ids = (),
        drop_items: Ids = (),
        add_bundles: Ids = (),
        drop_bundles: Ids = (),
        edits: Edits | None = None,
        k: int = 20,
    ) -> WhatIf:
        """A user's list before and after edits of the user's history, or of anything (`edits`).

        `edits` holds pairs of ids by relation: {"add": {"ui": [[user, item]]}, "drop": {"bi": [[bundle, item]]}}.
        """
        answer = whatif_.whatif(
            self.artifact,
            read_one_id(user, "user"),
            add_items=read_ids(add_items, "add_items"),
            drop_items=read_ids(drop_items, "drop_items"),
            add_bundles=read_ids(add_bundles, "add_bundles"),
            drop_bundles=read_ids(drop_bundles, "drop_bundles"),
            edits=edits,
            k=k,
        )
        return self._framed(answer)

    def audience(
        self,
        bundle: Id,
        *,
        add_items: Ids = (),
        drop_items: Ids = (),
        swap: Sequence[tuple[Id, Id]] = (),
        edits: Edits | None = None,
        k: int = 20,
        max_users: int | None = audience_.MAX_USERS,
    ) -> Audience:
        """The users who have a bundle among their first k, before and after edits of its contents, or of anything.

        `swap` holds (old item, new item) pairs. At most `max_users` who enter and leave are listed; None: all of them.
        """
        answer = audience_.audience(
            self.artifact,
            read_one_id(bundle, "bundle"),
            add_items=read_ids(add_items, "add_items"),
            drop_items=read_ids(drop_items, "drop_items"),
            swap=read_pairs(swap, "swap"),
            edits=edits,
            k=k,
            max_users=max_users,
        )
        return self._framed(answer)

    def new_bundle_audience(
        self, items: Sequence[Id], k: int = 20, max_users: int | None = audience_.MAX_USERS
    ) -> NewBundleAudience:
        """The users in whose lists an unseen bundle of these items would rank best; `max_users` as in `audience`."""
        found = audience_.new_bundle_audience(self.artifact, read_ids(items, "items"), k=k, max_users=max_users)
        return self._framed(found)

    def explain(
        self,
        user: Id,
        bundle: Id,
        *,
        of: Literal["history", "contents"] = "history",
        k: int = 20,
        budget: int = explain_.BUDGET,
    ) -> Explanation:
        """Why a bundle is among a user's first k; if it is not, the smallest edits that would bring it there.

        `of` says what may be edited: the user's history or the bundle's contents. At most `budget` sets are tried.
        """
        who, what = read_one_id(user, "user"), read_one_id(bundle, "bundle")
        return self._framed(explain_.explain(self.artifact, who, what, of=of, k=k, budget=budget))

    def suggest(
        self, bundle: Id, *, add_items: Ids = (), drop_items: Ids = (), k: int = 20, count: int = 5
    ) -> Suggestions:
        """At most `count` swaps of an item that would gain a bundle the most users, on top of given edits."""
        edits = {"add_items": read_ids(add_items, "add_items"), "drop_items": read_ids(drop_items, "drop_items")}
        return self._framed(suggest_.suggest(self.artifact, read_one_id(bundle, "bundle"), **edits, k=k, count=count))

    def similar_bundles(self, bundle: Id, k: int = 10) -> Similar:
        """The bundles nearest to one, by the cosine of their vectors."""
        return self._framed(similar_.similar(self.artifact, "bundle", read_one_id(bundle, "bundle"), k=k))

    def similar_items(self, item: Id, k: int = 10) -> Similar:
        """The items nearest to one, by the cosine of their vectors."""
        return self._framed(similar_.similar(self.artifact, "item", read_one_id(item, "item"), k=k))

    def find(self, text: str, kind: Kind | None = None, limit: int = 10) -> FoundNodes:
        """The users, bundles and items (or those of one kind) whose id or name matches a text, best first."""
        return self._framed(self.directory.find_all(text, kind, limit))

    @cached_property
    def directory(self) -> Directory:
        """What is known of a user, a bundle or an item: `directory.user(id)`, `.bundle(id)`, `.item(id)`."""
        return Directory(self.artifact)

    @cached_property
    def card(self) -> str:
        """The model card as Markdown. One that was not saved yet is measured for it."""
        if not self.artifact.card and self.dataset is not None:
            return write_card(measure(self.artifact, self.dataset), self.dataset)
        return self.artifact.card

    def update(
        self,
        user_bundle: Any = None,
        user_item: Any = None,
        bundle_item: Any = None,
        *,
        user_names: Any = None,
        bundle_names: Any = None,
        item_names: Any = None,
        columns: Mapping[str, str] | None = None,
    ) -> "Recommender":
        """A recommender that also knows the pairs of these frames (or files), with their new users, bundles and items.

        It is not trained again: only new nodes are fitted. Names may be of new and known nodes, and come alone. Columns
        and names are read as by `BundleDataset.from_frames`.
        """
        tables = {"user_bundle": user_bundle, "user_item": user_item, "bundle_item": bundle_item}
        tables |= {"user_names": user_names, "bundle_names": bundle_names, "item_names": item_names}
        found = update_.update(self.artifact, tables, columns, self.dataset)
        return Recommender(found.artifact, replace(found.dataset, backend=self.backend))

    def save(
        self, folder: str | Path, *, force: bool = False, whatif_agreement: Mapping[str, Agreement] | None = None
    ) -> Path:
        """Write a recommender folder, with its model card; `clbr.load_recommender` and `clbr serve` open it.

        `whatif_agreement` is the measured agreement of its what-if answers with retraining, by kind of edits, if it is
        known: its card and every what-if answer then quote it.

        A folder that holds something raises `InputError`; `force` replaces a recommender folder, nothing else.
        """
        out = as_path(folder, "folder")
        return save_artifact(self.artifact, out, self.dataset, force=force, whatif_agreement=whatif_agreement)

    def save_vectors(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write users.parquet, bundles.parquet and items.parquet (if items have vectors): id, name, vector.

        The inner product of a user's and a bundle's vector is the score that `recommend` ranks by. A model without
        vectors raises `InputError`. `force` replaces a folder of such files, nothing else.
        """
        return save_vectors(self.artifact, as_path(folder, "folder"), force=force)


def load_recommender(folder: str | Path, *, backend: Backend = "polars") -> Recommender:
    """Open a recommender folder, made by `Recommender.save` or `clbr export`. `backend` is the kind of its frames."""
    return Recommender(open_artifact(folder), backend=backend)
