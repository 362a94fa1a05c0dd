"""The models of a lab: truth, responses, and what a scan of their texts finds."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.published.study import Study

ITEM = ["benchmark", "item"]
PAIR = [*ITEM, "source", "document", "chunk"]
JUDGE = "origin"


def trained(study: Study) -> tuple[bc.LabSpec, Path, pd.DataFrame]:
    """Return the lab, its folder, and the answers of all of its models; resumed where begun."""
    lab, folder = bc.load_lab(study.settings["lab"]), study.folder / "lab"
    bc.make_mixes(lab, folder, progress=study.progress)
    bc.train_lab(folder, progress=study.progress)
    return lab, folder, bc.answer_lab(folder, progress=study.progress)


def clean_scores(answers: pd.DataFrame, clean: set[str]) -> pd.DataFrame:
    """Return the honest score of each base on each benchmark, with its error by chance.

    A base has several clean models: their mean is the score, and their spread, pooled over bases,
    is what chance in texts and training does to one.
    """
    own = answers[answers["mix"].isin(clean)]
    scores = own.groupby(["base", "benchmark", "mix"], sort=False)["p"].mean()
    by_base = scores.groupby(["base", "benchmark"], sort=False)
    table = by_base.agg(["mean", "var", "size"]).rename(columns={"mean": "truth"}).reset_index()
    pooled = table.groupby("benchmark")["var"].transform("mean")
    return table.assign(truth_se=np.sqrt(pooled / table["size"]))[
        ["base", "benchmark", "truth", "truth_se"]
    ]


def seed_spread(answers: pd.DataFrame, mix: str) -> pd.DataFrame:
    """Return the accuracy of a mix by benchmark and over all items, and its spread over bases."""
    own = answers[(answers["mix"] == mix) & (answers["half"] != "control")]
    whole = own.assign(benchmark="all with duplicates")
    rows = pd.concat([answers[answers["mix"] == mix], whole])
    by_base = rows.groupby(["benchmark", "base"], sort=False)["p"].mean()
    table = by_base.groupby("benchmark", sort=False).agg(["mean", "std", "min", "max", "size"])
    names = {"mean": "accuracy", "std": "sd between bases", "size": "bases"}
    return table.rename(columns=names).reset_index()


def responses_of(answers: pd.DataFrame, contamination: pd.Series) -> bc.Responses:
    """Return answers as responses with these contaminations; known ones have a kind of duplicates.

    Kinds are those of the mixes: their duplicates, and how many there are of each.
    """
    columns = ["model", "benchmark", "item", "n_correct", "n_trials", "base"]
    table = answers[columns].assign(
        contamination=contamination.to_numpy(),
        duplicate_kind=answers["mix"].where(answers["contamination"] > 0, ""),
    )
    return bc.Responses.from_frame(table, source="responses of the lab")


def scanned(study: Study, lab: bc.LabSpec, folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return `base, mix, benchmark, item, p`: the probability of a duplicate by the scan.

    Matches of one base are judged, and the curve that they give weighs those of all.
    """
    scans = [_scan(study, lab, folder, base) for base in range(lab.training.bases)]
    curve = study.curve(
        "texts", scans[0], _judgements(study, lab, folder, scans[0]),
        draws=study.settings["draws"], tune=study.settings["tune"],
    )  # fmt: skip
    notes = [
        f"The curve failed '{check.name}': {check.sentence}"
        for check in curve.checks()
        if check.outcome is bc.Outcome.FAILED
    ]
    parts = [
        table.assign(base=f"base-{base}")
        for base, scan in enumerate(scans)
        for table in _by_mix(lab, scan, curve)
    ]
    return pd.concat(parts, ignore_index=True), notes


def _by_mix(lab: bc.LabSpec, scan: bc.Scan, curve: bc.Curve) -> Iterator[pd.DataFrame]:
    weighed = bc.item_contamination(scan, curve)
    for mix in lab.mixes:
        none = weighed.none_by_source[..., weighed.sources.index(mix.name)]
        yield weighed.items.assign(mix=mix.name, p=1 - none.mean(axis=0))


def _scan(study: Study, lab: bc.LabSpec, folder: Path, base: int) -> bc.Scan:
    """Return the scan of a base's mixes, each a source."""
    lines = ['summary = "Training texts of a base"', f"seed = {study.spec.seed}"]
    for name in _items(folder)["benchmark"].unique():
        path = json.dumps(str(_benchmark(study, folder, str(name)).absolute()))
        lines += ["[[benchmarks]]", f'name = "{name}"', f"path = {path}", 'input = "text"']
    for mix in lab.mixes:
        path = json.dumps(str((folder / "texts" / f"base-{base}" / f"{mix.name}.jsonl").absolute()))
        lines += ["[[sources]]", f'name = "{mix.name}"', f"paths = [{path}]", 'stratum = "source"']
    # Of every item all duplicates of all mixes are listed, and background beside them.
    copies = sum(mix.copies for mix in lab.mixes)
    lines += ["[chunking]", "min_tokens = 1", "[search]", f"top_k = {2 * copies + 100}"]
    lines += ["[embedding]", f'model = "{study.settings["embedder"]}"']
    return bc.run_scan(
        bc.Manifest.parse("\n".join(lines), "manifest.toml"), study.folder / "scans" / str(base),
        base=study.folder, device="cpu", replace=True, progress=study.progress,
    )  # fmt: skip


def _items(folder: Path) -> pd.DataFrame:
    return pd.read_json(folder / "items.jsonl", lines=True, dtype=False)


def _benchmark(study: Study, folder: Path, name: str) -> Path:
    """Return a file of one benchmark's items, as a scan reads it."""
    items = _items(folder)
    own = items[items["benchmark"] == name].rename(columns={"item": "id"})
    path = study.folder / f"items-{name}.jsonl"
    own[["id", "text"]].to_json(path, orient="records", lines=True, force_ascii=False)
    return path


def _judgements(study: Study, lab: bc.LabSpec, folder: Path, scan: bc.Scan) -> bc.Judgements:
    """Return verdicts by the origin of texts on matches of some of the items of the first base."""
    origin = {}
    for mix in lab.mixes:
        path = folder / "texts" / "base-0" / f"{mix.name}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["kind"] in ("exact", "semantic"):
                origin[mix.name, row["id"]] = row["item"]
    pairs = pd.concat([scan.matches, scan.tail]).drop_duplicates(PAIR)
    pairs = pairs.sort_values([*ITEM, "cosine"], ascending=[True, True, False], kind="stable")
    rng = study.stream("judged")
    items = scan.items["item"].to_numpy()
    chosen = set(rng.permutation(items)[: round(study.settings["judged_items"] * len(items))])
    pairs = pairs[pairs["item"].isin(chosen)]
    best = pairs.groupby(ITEM, observed=True).cumcount() < study.settings["judged"]
    rest = pairs[~best].sample(frac=1, random_state=int(rng.integers(2**31)))
    others = rest.groupby(ITEM, observed=True).head(study.settings["others"])
    judged = pd.concat([pairs[best], others])
    places = zip(judged["source"], judged["document"], judged["item"], strict=True)
    is_duplicate = [int(origin.get((source, text)) == item) for source, text, item in places]
    table = judged[PAIR].assign(judge=JUDGE, is_duplicate=is_duplicate)
    return bc.Judgements.from_frame(table, source="origin of the texts")
