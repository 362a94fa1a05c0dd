"""How many items have duplicates, by matches examined and by corpus scanned."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayescontam._files import sha256
from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.errors import FitError
from bayescontam.evidence.covariates import RANKS, weigh_scan
from bayescontam.evidence.curve import Curve, CurveOptions, fit_curve
from bayescontam.evidence.pairs import positions_in_scan
from bayescontam.evidence.prevalence import prevalence
from bayescontam.inference.checks import Outcome
from bayescontam.published.quantities import row_of
from bayescontam.published.simulate import ScanWithTruth, generated_scan, texts
from bayescontam.published.study import Comparison, Findings, PictureData, Study, Titled
from bayescontam.specs.registry import load_curve

FOLDER = "texts"
"""Folder of the texts, in the data folder."""
JUDGE = "truth"
COLUMNS = {"mean": "mean", "ci_low": "low", "ci_high": "high"}
OTHER = "Another benchmark, corpus and embedder: shapes may agree, levels need not."


def analyse(study: Study) -> Findings:
    """Scan, judge, learn the curve, and estimate how many items have duplicates."""
    notes, searched = [], [generated_scan(study)]
    if (folder := study.given(FOLDER)) is not None:
        searched.append(texts(study, folder))
    else:
        notes.append(
            f"{FOLDER}/ is not in the data folder: the scan of programming tasks is left out."
            " Name the folder that holds it with --data."
        )
    curves = {one.name: learnt(study, one) for one in searched}
    for name, curve in curves.items():
        failed = [check for check in curve.checks() if check.outcome is Outcome.FAILED]
        notes += [f"The curve of '{name}' failed '{c.name}': {c.sentence}" for c in failed]
    ranks = pd.concat([by_rank(study, one, curves[one.name]) for one in searched])
    shares = pd.concat([by_share(study, one) for one in searched])
    bands = pd.concat([_band(name, curve) for name, curve in curves.items()])
    return Findings(
        _headline(ranks),
        tuple(_compared(study, ranks, bands)),
        (_rank_picture(study, ranks), _share_picture(shares), _curve_picture(study, bands)),
        (
            Titled(
                "By matches examined",
                "Share of the items that nobody judged with a duplicate among them.",
                ranks,
            ),
            Titled("By share of the corpus", "Mean and 95 % of random parts.", shares),
        ),
        tuple(notes),
    )


def learnt(study: Study, one: ScanWithTruth) -> Curve:
    """Return P(duplicate | cosine) of a scan, from what is true of some of its pairs.

    Judged are the best matches of each item, and some of its others, of any cosine.
    """
    judged = positions_in_scan(judgements(study, one), one.scan)
    best = one.scan.matches.groupby(["benchmark", "item"], observed=True)["cosine"].max()
    judged = judged.join(best.rename("best"), on=["benchmark", "item"])
    names = {
        "benchmarks": tuple(map(str, one.scan.items["benchmark"].unique())),
        "sources": tuple(dict.fromkeys(row["source"] for row in one.scan.record["strata"])),
        "embedder": one.scan.record.get("embedder"),
    }
    key = sha256(pd.util.hash_pandas_object(judged, index=False).to_numpy().tobytes())
    path = study.folder / "fits" / f"curve-{one.name.replace(' ', '-')}-{key[:12]}.nc"
    try:
        return Curve.load(path)
    except FitError:
        path.parent.mkdir(exist_ok=True)
    options = CurveOptions(seed=int(study.stream("curve", one.name).integers(2**31)))
    curve = fit_curve(judged, names, load_curve("monotone"), options, study.progress)
    curve.save(path)
    return curve


def judged_items(study: Study, one: ScanWithTruth) -> set[str]:
    """Return the items, chosen at random, whose matches are judged."""
    items = one.scan.items["item"].to_numpy()
    count = round(study.settings["judged_items"] * len(items))
    return set(study.stream("judged", one.name).permutation(items)[:count])


def judgements(study: Study, one: ScanWithTruth) -> Judgements:
    """Return true verdicts on the best matches of each judged item and on some of its others."""
    pairs = one.pairs.drop_duplicates(list(PAIR))
    pairs = pairs[pairs["item"].isin(judged_items(study, one))].reset_index(drop=True)
    place = pairs.groupby(["benchmark", "item"], observed=True).cumcount()
    best = place < study.settings["judged"]
    rest = pairs[~best].sample(frac=1, random_state=int(study.stream("tail").integers(2**31)))
    tail = rest.groupby(["benchmark", "item"], observed=True).head(study.settings["tail"])
    chosen = pd.concat([pairs[best], tail])
    table = chosen[list(PAIR)].assign(judge=JUDGE, is_duplicate=chosen["true"].astype(int))
    return Judgements.from_frame(table, source="truth")


def by_rank(study: Study, one: ScanWithTruth, curve: Curve) -> pd.DataFrame:
    """Return the share of items with a duplicate among their best matches.

    Of the items that nobody judged: verdicts on the others would be read back as answers.
    """
    seen = judged_items(study, one)
    found = first_ranks(one)
    found = found[~found.index.isin(seen)]
    true = [float((found <= k).mean()) for k in RANKS]
    table = pd.DataFrame({"matches": RANKS, "mean": true, "low": true, "high": true})
    weighed = weigh_scan(one.scan, curve)
    estimated = prevalence(weighed.of(~weighed.items["item"].isin(seen).to_numpy()))
    estimated = estimated[estimated["by"] == "matches"].rename(columns=COLUMNS)
    estimated = estimated.assign(matches=estimated["group"].astype(int))[list(table.columns)]
    parts = [table.assign(of="truth"), estimated.assign(of="curve")]
    return pd.concat(parts).assign(corpus=one.name)[["corpus", "of", *table.columns]]


def first_ranks(one: ScanWithTruth) -> "pd.Series[float]":
    """Return the rank of each item's first duplicate, infinite where none is listed."""
    found = one.scan.matches[one.true]
    first = found.groupby("item", observed=True)["rank"].min().astype(float)
    return first.reindex(one.scan.items["item"]).fillna(np.inf)


def by_share(study: Study, one: ScanWithTruth) -> pd.DataFrame:
    """Return the share of items with a duplicate among those listed, by share of the corpus."""
    rng, rows = study.stream("shares", one.name), []
    found = one.scan.matches[one.true]
    document, documents = pd.factorize(found["document"])
    item, items = pd.factorize(found["item"])
    belongs = (item[:, None] == np.arange(len(items))).astype(float)
    for share in study.settings["shares"]:
        included = rng.random((study.settings["repeats"], len(documents))) < share
        there = (included[:, document] @ belongs > 0).sum(axis=1) / len(one.scan.items)
        rows.append({"share": share} | row_of(there))
    return pd.DataFrame(rows).assign(corpus=one.name)[["corpus", "share", "mean", "low", "high"]]


def _band(name: str, curve: Curve) -> pd.DataFrame:
    band = curve.tree["curves"].to_dataset().isel(benchmark=0)
    columns = {column: band[column].to_numpy() for column in ("mean", "low", "high")}
    return pd.DataFrame({"x": band["cosine"].to_numpy(), "series": name, **columns})


def _headline(ranks: pd.DataFrame) -> str:
    true = ranks[ranks["of"] == "truth"].set_index(["corpus", "matches"])["mean"]
    estimated = ranks[ranks["of"] == "curve"].set_index(["corpus", "matches"])
    parts = []
    for corpus in ranks["corpus"].unique():
        at = estimated.loc[(corpus, RANKS[-1])]
        parts.append(
            f"{corpus}: {true[corpus, RANKS[0]]:.0%} of the items that nobody judged have a"
            f" duplicate as their best match, {true[corpus, RANKS[-1]]:.0%} among {RANKS[-1]}; the"
            f" curve says {at['mean']:.0%} [{at['low']:.0%}, {at['high']:.0%}]"
        )
    return f"{'; '.join(parts)}."


def _compared(study: Study, ranks: pd.DataFrame, bands: pd.DataFrame) -> Iterator[Comparison]:
    estimated = ranks[ranks["of"] == "curve"].set_index(["corpus", "matches"])
    for corpus in ranks["corpus"].unique():
        for where in ("CodeForces top-1", "CodeForces top-100", "MBPP top-100"):
            at = estimated.loc[(corpus, int(where.rsplit("-", 1)[1]))]
            ours = (float(at["mean"]), float(at["low"]), float(at["high"]))
            label = f"{where}; ours: {corpus}"
            yield study.compared("share_with_duplicate", ours, OTHER, where=where, label=label)
        band = bands[bands["series"] == corpus].set_index(bands.columns[0])
        for where in ("cosine 0.35", "cosine 0.8"):
            near = band.iloc[np.abs(band.index - float(where.split()[1])).argmin()]
            ours = (float(near["mean"]), float(near["low"]), float(near["high"]))
            label = f"{where}; ours: {corpus}"
            yield study.compared("duplicate_rate", ours, OTHER, where=where, label=label)


def _rank_picture(study: Study, ranks: pd.DataFrame) -> PictureData:
    own = ranks.assign(series=ranks["corpus"] + ", " + ranks["of"], x=ranks["matches"])
    printed = study.published[study.published["quantity"] == "share_with_duplicate"]
    name, top = zip(*printed["where"].str.split(" top-"), strict=True)
    published = pd.DataFrame(
        {"x": list(map(int, top)), "series": [f"{n}, published" for n in name]}
    )
    for column in ("mean", "low", "high"):
        published[column] = printed["value"].to_numpy()
    columns = ["x", "series", "mean", "low", "high"]
    return PictureData(
        "curves",
        "Items with a duplicate among their best matches",
        "Of the items that nobody judged, from the truth and from the curve with 95 % intervals;"
        " and published.",
        pd.concat([own[columns], published[columns]], ignore_index=True),
        "matches examined",
        "share of items",
    )


def _share_picture(shares: pd.DataFrame) -> PictureData:
    return PictureData(
        "curves",
        "Items with a duplicate in a part of the corpus",
        "Documents left out at random; mean and 95 % of the parts.",
        shares.rename(columns={"share": "x", "corpus": "series"}),
        "share of documents",
        "share of items",
    )


def _curve_picture(study: Study, bands: pd.DataFrame) -> PictureData:
    few, many = (study.printed("duplicate_rate", f"cosine {at}") for at in ("0.35", "0.8"))
    steep = study.printed("steep_cosine")
    return PictureData(
        "curves",
        "P(duplicate | cosine)",
        f"A match of a random item, with 95 % bands. Published: about {few['value']:.2f} below a"
        f" cosine of 0.35, steep between {steep['low']:.1f} and {steep['high']:.1f},"
        f" {many['low']:.2f} to {many['high']:.2f} near 0.8.",
        bands,
        "cosine",
        "probability of a duplicate",
    )
