"""
From a corpus to covariates
===========================

Is a benchmark in a training corpus, and which of its items? A scan compares every item
with every text of the corpus by embeddings. Cosine similarity is not contamination,
however: somebody judges some of the matches, and a curve learns from these how probable
a duplicate is at each cosine. This page goes from a corpus to a table of covariates for
``fit``.
"""

# %%
# The scan
# --------
#
# The package generates a benchmark and a small corpus in which some items occur word
# for word, some in other words, and most not at all. The embedder is a small one that
# comes as a Python package; nothing is downloaded. With ``jobs=1`` everything runs in
# this process; in a script of your own, more jobs need the usual guard ``if __name__ ==
# "__main__"``.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import bayescontam as bc

manifest = bc.Manifest(
    summary="A generated benchmark and corpus.",
    seed=3,
    generated={"items": 30, "documents": 120, "exact": 0.2, "paraphrased": 0.2},
    search={"top_k": 20},
)
folder = Path(tempfile.mkdtemp(), "scan")
scan = bc.run_scan(manifest, folder, jobs=1, device="cpu")
best = scan.matches[scan.matches["rank"] == 1]
print(len(scan.items), "items; quantiles of the cosine of the best match:")
print(best["cosine"].quantile([0, 0.25, 0.5, 0.75, 1]).round(2).to_string())

# %%
# Judgements
# ----------
#
# Two judges read the five best matches of each item. The first is a rule that
# recognises copies and costs nothing. The second stands for a person; here it is
# simulated, and knows from the generator which documents are duplicates.

pairs = scan.matches[scan.matches["rank"] <= 5]
# Of each document, the chunk that is nearest to the item.
pairs = pairs.drop_duplicates(["item", "document"])
item_texts = scan.item_texts.groupby(["benchmark", "item"])["text"].first()
chunk_texts = scan.texts.set_index("chunk_id")["text"].rename("chunk_text")
pairs = pairs.join(item_texts, on=["benchmark", "item"])
pairs = pairs.join(chunk_texts, on="chunk_id")
by_rule = bc.verbatim_judgements(pairs)

truth = pd.read_csv(folder / "generated" / "truth.csv").set_index("item")
holders = truth["documents"].fillna("").str.split()
of_pair = zip(pairs["document"], holders[pairs["item"]], strict=True)
by_person = bc.Judgements.from_frame(
    pairs[["benchmark", "item", "source", "document", "chunk"]].assign(
        judge="a simulated person",
        is_duplicate=[int(document in those) for document, those in of_pair],
    )
)
judgements = by_rule.merged(by_person)
verdicts = judgements.frame.groupby("judge")["is_duplicate"]
print(verdicts.agg(["count", "sum"]).to_string())

# %%
# The curve
# ---------
#
# P(duplicate | cosine), with the errors of the judges estimated. The sensitivity of the
# rule is for copies only, since it is blind to duplicates in other words.

curve = bc.fit_curve(scan, judgements, seed=1, draws=500, tune=800)
checks = pd.DataFrame([check.to_dict() for check in curve.checks()])
print(checks["outcome"].value_counts().to_string())
print(*checks.loc[checks["outcome"] != "passed", "sentence"], sep="\n")
columns = ["of", "quantity", "mean", "ci_low", "ci_high"]
print(curve.summary()[columns].round(2).to_string(index=False))

# %%
# Covariates
# ----------
#
# One row for each item: the probability that the corpus holds a duplicate of it.

covariates = bc.contamination_covariates(scan, curve)
table = covariates.frame.set_index("item").join(truth[["kind", "n_duplicates"]])
medians = table.groupby("kind")[["top_cosine", "p_duplicate"]].median()
print(medians.round(3).to_string())

# %%
# Left: the curve with its 95 % band, over the judged pairs as ticks (true duplicates
# above). Right: each item, by the cosine of its best match. Items that truly have a
# duplicate are crosses.

band = curve.data["curves"].to_dataset().isel(benchmark=0)
duplicate = by_person.frame["is_duplicate"].to_numpy(float)
figure, (left, right) = plt.subplots(1, 2, figsize=(5.0, 3.0), sharey=True)
left.fill_between(
    band["cosine"], band["low"], band["high"], color="C0", alpha=0.25, linewidth=0
)
left.plot(band["cosine"], band["mean"], color="C0")
left.plot(pairs["cosine"], duplicate, "|", color="0.5", markersize=10)
left.set_xlabel("cosine of a pair")
left.set_ylabel("P(duplicate)")
for has, mark, color in ((True, "x", "C1"), (False, ".", "C0")):
    own = table[(table["n_duplicates"] > 0) == has]
    label = "duplicated" if has else "not"
    right.plot(own["top_cosine"], own["p_duplicate"], mark, color=color, label=label)
right.set_xlabel("best cosine of an item")
right.set_title("items")
left.set_title("pairs")
right.legend(loc="center left")
plt.show()

# %%
# The table goes to ``fit`` as ``covariates=covariates``, with the responses of models
# to these items; the model spec ``latent_duplicate`` carries the uncertainty on.
#
# What this does not show
# -----------------------
#
# The corpus is generated, and its paraphrases need not resemble those of the web:
# neither the curve nor its place on the axis holds for a real corpus or for another
# embedder. The simulated person never errs, and knows what no real judge knows. Real
# judges differ, and the definition that they are given decides what a duplicate is. An
# item of low probability is one of which this search found nothing: texts that the
# corpus does not hold, such as private training data, are not searched. And that an
# item is in a corpus does not show that a model learned from it; that is the question
# of the fit.
