"""The class `Fit`: draws, estimands, checks and what else a fit holds."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from bayescontam.data.responses import Path, Responses
from bayescontam.data.validation import check_level
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.assumed_spillover import GROUP as ASSUMED
from bayescontam.inference.assumed_spillover import assumed_table
from bayescontam.inference.bootstrap import bootstrap_table
from bayescontam.inference.checks import Outcome
from bayescontam.inference.comparable import p_better, ranked, same_items
from bayescontam.inference.estimands import renamed
from bayescontam.inference.identification import SMALLEST_EFFECT
from bayescontam.inference.item_fit import FDR, item_sentences, item_table, stored_item_fit
from bayescontam.inference.logged import sample_table
from bayescontam.inference.rebuilt import rebuild_responses
from bayescontam.inference.sensitivity import confounding_table
from bayescontam.inference.stored import (
    MOST_RESPONSES,
    Stored,
    aligned,
    exposure_table,
    labelled,
    unlabelled,
)
from bayescontam.inference.summary import summarise, summarise_concepts, tidy_draws
from bayescontam.inference.total_effects import judged
from bayescontam.model.build import build
from bayescontam.model.effect_names import DIRECT, EffectNames
from bayescontam.specs.model import ModelSpec, restored_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pymc as pm
    from arviz_stats.utils import ELPDData

    from bayescontam.data.importers.arc import ArcTasks
    from bayescontam.data.importers.base import Names, Paths
    from bayescontam.evidence.curve import Curve
    from bayescontam.inference.named_fits import FitsOrFiles
    from bayescontam.inference.ranking import Ranking
    from bayescontam.scan.results import Scan
    from bayescontam.updating.update import Update


FORMAT = 2
"""Version of the layout of a saved fit. 2: draws of items apart, groups that ArviZ reads."""


class Fit(Stored):
    """Posterior draws plus everything needed to judge and reuse them.

    Made by `fit`, or read from a file with ``Fit.from_netcdf(path)``.

    Attributes
    ----------
    data : xarray.DataTree
        The groups that ArviZ knows: ``posterior``, ``sample_stats``, ``prior``,
        ``log_prior``, ``log_likelihood``, ``posterior_predictive``, ``prior_predictive``,
        ``observed_data``, ``constant_data``. Those of this package: ``estimands``,
        ``prior_estimands``, ``item_effects`` (difficulties), ``predictive``, ``loo``,
        ``record``; with contamination ``sensitivity``, ``identification`` and ``curves``, and
        with ``confounding = "sensitivity"`` in the model spec ``confounding``. Draws have dims
        (chain, draw, …); responses have the coordinates ``model``, ``benchmark``, ``item``.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.Fit.from_netcdf("no-such-file.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.FitError: no-such-file.nc: no such file; make a fit with: bayescontam fit
    """

    _VERB = "fit"
    _IS = "a fit of bayescontam"
    _AGAIN = "make the fit again"
    _LAYOUT = "format", FORMAT

    @classmethod
    def _written(cls, tree: xr.DataTree) -> xr.DataTree:
        return unlabelled(tree)

    @classmethod
    def _read(cls, tree: xr.DataTree) -> xr.DataTree:
        return labelled(renamed(tree))

    def __repr__(self) -> str:
        sizes = self.data["estimands"].sizes
        failed = sum(check.outcome is Outcome.FAILED for check in self.checks())
        verdict = f"{failed} checks failed" if failed else "no check failed"
        return (
            f"<{type(self).__name__} of model spec '{self.record['spec']['name']}':"
            f" {sizes['model']} models, {sizes['benchmark']} benchmarks, {verdict}>"
        )

    @property
    def spec(self) -> ModelSpec:
        """The model spec that was fitted."""
        stored = self.record["spec"]
        return restored_spec(stored["content"], stored["name"], stored["text"])

    def joint_posterior(self) -> xr.Dataset:
        """Return draws of all parameters, those of items among them.

        Returns
        -------
        xarray.Dataset
            Dims (chain, draw, …): the draws for which those of items are stored. All draws,
            and no difficulties, where these were integrated out.
        """
        posterior = self.data["posterior"].to_dataset()
        if "item_effects" not in self.data or self.record["difficulties"] == "marginalised":
            return posterior
        items = self.data["item_effects"].to_dataset().drop_vars(["mean", "sd"], errors="ignore")
        return posterior.sel(draw=items["draw"]).merge(items)

    def aligned(self) -> xr.DataTree:
        """Return the tree at the draws for which log densities of responses are stored.

        What weighs draws by their likelihood, such as ``arviz.psense_summary``, needs the same
        draws in all groups. Of all but small tables ``log_likelihood`` has a part of them.

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        FitError
            If none are stored, because the table is too large.
        """
        if "log_likelihood" not in self.data:
            raise FitError(
                f"the fit is of {self.record['data']['responses']:,} responses, and of more than"
                f" {MOST_RESPONSES:,} no log densities are stored; fit with store_all=True"
                " (--store-all)"
            )
        return aligned(self.data)

    def estimands(self, level: float | None = None, *, progress: bool = False) -> pd.DataFrame:
        """Return one row for each estimand.

        Parameters
        ----------
        level : float, optional
            Probability of the equal-tailed intervals; default: that of the fit (0.95
            unless it was set).
        progress : bool, default False
            Whether to show a progress bar.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, quantity, mean, sd, ci_low, ci_high, ess_bulk, ess_tail,
            r_hat, p_positive, verdict, mcse_mean``; ``verdict`` is that on slopes and on
            overfitting, by intervals of the level of the fit, and empty elsewhere. Quantities
            are ``accuracy`` and ``rank``, with contamination ``slope`` and ``novelty_gap`` too.
            Where the fit has a term for spillover, ``genuine_ability`` is without the total
            effect, ``overfitting``, whose parts are ``overfitting_direct`` and
            ``overfitting_spillover``; ``genuine_ability_direct`` is without the direct effect, and
            ``overfitting_fraction`` the total as a share of accuracy. Without spillover there
            are ``genuine_ability_direct``, ``overfitting_direct`` and
            ``overfitting_fraction_direct``. An effect that is zero by definition, since
            contamination does not vary or the model is clean, has no interval; where nothing
            can be estimated its mean is NaN too. Where abilities vary over concepts there is
            a column ``concept``, empty in the rows for whole benchmarks.

        Raises
        ------
        UsageError
            If the level is none of an interval.
        """
        level = self.level if level is None else level
        check_level(level)
        table = summarise(self.data["estimands"].to_dataset(), level, progress=progress)
        if "estimands_by_concept" in self.data:
            parts = summarise_concepts(self.data, level)
            both = [table.assign(concept=""), parts]
            table = pd.concat(both, ignore_index=True)[list(parts.columns)]
        table.insert(list(table.columns).index("p_positive") + 1, "verdict", "")
        if "identification" not in self.data:
            return table
        table = judged(table, self.data, self.record, self.checks(), self.smallest_effect)
        if level != self.level:  # verdicts are by the intervals of the fit
            table["verdict"] = self.estimands()["verdict"].to_numpy()
        return table

    @property
    def smallest_effect(self) -> float:
        """Smallest overfitting that matters, as the fit was made with."""
        return float(self.record.get("smallest_effect", SMALLEST_EFFECT))

    def bootstrap(self, level: float | None = None) -> pd.DataFrame:
        """Return the published bootstrap, if the fit was made with it.

        Parameters
        ----------
        level : float, optional
            Probability of the percentile intervals; default: that of the fit.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, quantity, mean, sd, ci_low, ci_high``, quantities ``accuracy``,
            ``genuine_ability_direct``, ``overfitting_direct``, ``overfitting_fraction_direct``
            and ``slope``: of logistic regressions on contamination with an L2 penalty of 1 on
            the slope, fitted to resamples of the items that each model answered (1,000; of more
            than 2,000 pairs fewer are stored, at least 200), at the reference of the fit.
            Overfitting below 0 is set to 0. Empty without ``fit(bootstrap=True)``.

        Raises
        ------
        UsageError
            If the level is none of an interval.

        References
        ----------
        "Quantifying Knowledge-Dependent Overfitting on ARC-AGI", sections 2.2 and 2.3.
        """
        level = self.level if level is None else level
        check_level(level)
        known = self.data["bootstrap"].to_dataset() if "bootstrap" in self.data else None
        return bootstrap_table(known, level)

    def responses(self) -> Responses:
        """Return the responses that the fit was made of.

        Returns
        -------
        Responses

        Raises
        ------
        FitError
            If they cannot be rebuilt: contamination was not known for sure, or the table had
            columns that a fit does not store.
        """
        return rebuild_responses(self.data, self.spec, self.record)

    def samples(self, items: "Names | None" = None) -> pd.DataFrame:
        """Return where in the logs the answers to items are.

        Parameters
        ----------
        items : str or sequence of str, optional
            Items, as `item_fit` names them, whose rows come in this order. Default: all, in the
            order of the responses in `data`.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, item, n_correct, n_trials, log_file`` (name of the log in the
            folder that was imported), ``log_sample`` (where in it: of several trials the first),
            one row for each response of which that is known. Without rows where the table had no
            column ``log_file``, or an earlier version made the fit.
        """
        return sample_table(self.data, items)

    def summary(self, level: float | None = None) -> pd.DataFrame:
        """Return the headline: one row for each model and benchmark.

        Parameters
        ----------
        level : float, optional
            Probability of the equal-tailed intervals; default: that of the fit.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, raw_accuracy``; with contamination ``genuine_ability_direct`` and
            ``overfitting_direct`` (posterior means, probability scale), each with ``_low`` and
            ``_high``, ``overfitting_fraction_direct``, ``slope_verdict`` and
            ``overfitting_direct_verdict``. With a term for spillover ``genuine_ability``,
            ``overfitting`` and so on of the total effect, and its parts. Without contamination
            ``accuracy``. Then ``rank_raw``, ``rank`` with its interval and ``p_best``.
            `estimands` has every quantity, one row each.
        """
        from bayescontam.inference.tables import headline

        return headline(self, self.estimands(level))

    def identification(self) -> pd.DataFrame:
        """Return for each slope whether the responses could have shown it.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, slope`` (log-odds from surely clean to surely contaminated),
            ``slope_low``, ``slope_high``, ``verdict``, ``sentence``, and what the verdict rests
            on. Empty where contamination is not modelled.
        """
        from bayescontam.inference.tables import slopes

        return slopes(self)

    def sensitivity(self) -> pd.DataFrame:
        """Return how much the prior decides, by power-scaling.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark``; ``…_prior`` and ``…_likelihood`` (cumulative Jensen-Shannon
            distance of genuine ability, overfitting and slope when that part of the model is
            scaled), ``diagnosis``. Names are those of `estimands`. Empty where contamination
            is not modelled.

        References
        ----------
        Kallioinen, Paananen, Bürkner & Vehtari (2023), doi:10.1007/s11222-023-10366-5.
        """
        from bayescontam.inference.tables import sensitivity

        return sensitivity(self)

    def loo(self) -> "ELPDData":
        """Return PSIS-LOO of single responses, stored when the fit was made.

        Returns
        -------
        arviz_stats.utils.ELPDData
            For ``arviz.compare`` and ``arviz.plot_khat``; responses in the order of model,
            benchmark and item.

        Raises
        ------
        FitError
            If leave-one-out is not stored: the fit has too few draws for it.
        """
        from bayescontam.inference.loo import stored_loo

        if "loo" not in self.data:
            raise FitError("leave-one-out is not stored: the fit has too few draws for it")
        return stored_loo(self.data)

    def rank(self, benchmark: "str | Iterable[str] | None" = None, **options: Any) -> "Ranking":
        """Rank the models, on one benchmark or on average over several.

        Parameters
        ----------
        benchmark : str or iterable of str, optional
            Benchmarks to average over; default: all.
        **options
            ``by``, ``weights``, ``level``: those of `rank_models`.

        Returns
        -------
        Ranking
        """
        from bayescontam.inference.ranking import rank_models

        return rank_models(self, benchmark, **options)

    def update(self, responses: "Responses | pd.DataFrame | Path", **options: Any) -> "Update":
        """Estimate the scores of models that were not in this fit.

        Parameters
        ----------
        responses : Responses, pandas.DataFrame or path-like
            Responses of new models.
        **options
            Those of `update`.

        Returns
        -------
        Update
        """
        from bayescontam.updating.update import update

        return update(self, responses, **options)

    def draws(self, *quantities: str) -> pd.DataFrame:
        """Return draws of the estimands as a tidy table.

        Parameters
        ----------
        *quantities : str
            Such as ``"genuine_ability_direct"``; default: all.

        Returns
        -------
        pandas.DataFrame
            ``chain, draw, model, benchmark`` and a column for each quantity; one row for
            each draw of each pair that was answered.

        Raises
        ------
        UsageError
            If the fit has no such quantity.
        """
        return tidy_draws(self.data["estimands"].to_dataset(), quantities)

    def exposures(self) -> pd.DataFrame:
        """Return what the fit shows about the true contamination of each item.

        Returns
        -------
        pandas.DataFrame
            ``benchmark, item``, ``model`` if the covariates differ between models,
            ``contamination`` (expected before the responses were seen: of a latent event
            its probability), ``posterior_mean``, ``posterior_sd``. Empty where the model
            spec takes contamination as known.
        """
        return exposure_table(self.data)

    def item_fit(self, fdr: float = FDR) -> pd.DataFrame:
        """Return how each item fits, the worst first: suspects of a wrong key.

        Parameters
        ----------
        fdr : float, default 0.1
            False discovery rate up to which an item is a suspect: the expected share of
            items among them that fit.

        Returns
        -------
        pandas.DataFrame
            ``benchmark, item, answers`` (models that answered), ``solved``,
            ``solved_by_weaker``, ``solved_by_stronger`` (shares of all of them, of their
            weaker and of their stronger half), ``contamination`` (mean, where the fit has
            it), ``z`` (negative: weak models solve it more and strong ones less than
            expected, in standard deviations), ``p_value``, ``q_value`` (smallest rate at
            which it is a suspect), ``suspect``. NaN where fewer than 3 models answered an
            item, or all or none solved it.

        Raises
        ------
        UsageError
            If `fdr` is not between 0 and 1.
        FitError
            If the fit holds no item fit.
        """
        benchmark = self.data["constant_data"]["benchmark_of_item"].to_numpy()
        return item_table(stored_item_fit(self.data, self.spec, fdr), benchmark, fdr)

    def item_sentences(self, fdr: float = FDR) -> list[str]:
        """Return what `item_fit` says, in words."""
        return list(item_sentences(stored_item_fit(self.data, self.spec, fdr), fdr))

    def raw_accuracy(self) -> xr.DataArray:
        """Return the observed score: mean over items of the share of correct trials.

        Returns
        -------
        xarray.DataArray
            Dims (model, benchmark); NaN where a model answered nothing.
        """
        return self.data["predictive"].to_dataset()["score"]

    def same_items(self) -> "pd.Series[bool]":
        """Return whether all models that answered a benchmark answered the same items of it.

        Returns
        -------
        pandas.Series
            By the name of the benchmark. Where it is False, raw accuracies are averages over
            different items and cannot be compared.
        """
        return same_items(self.data)

    def ranked(self) -> "pd.Series[bool]":
        """Return in which benchmarks models can be compared, so that they have ranks.

        Returns
        -------
        pandas.Series
            By the name of the benchmark: True where all models answered the same items, or
            where estimands average over all items and models are linked by shared ones.
        """
        return ranked(self.data, self.record)

    def p_better(self) -> xr.DataArray:
        """Return the probability that a model is better than another.

        Returns
        -------
        xarray.DataArray
            Dims (model, other, benchmark): posterior probability that the genuine
            ability (the accuracy, where there is no contamination) of ``model`` is
            larger than that of ``other``; draws in which both are equal count half. NaN
            on the diagonal, where one of them answered nothing, and in benchmarks in which
            models answered different items and cannot be compared.

        See Also
        --------
        bayescontam.rank_models : Ranks and pairs across benchmarks.
        """
        return p_better(self.data["estimands"].to_dataset(), self.ranked())

    @cached_property
    def model(self) -> "pm.Model":
        """The PyMC model of the fit, built again from its table.

        Raises
        ------
        FitError
            If contamination is not known for sure: what was known of it is not stored.
        """
        if self.spec.contamination.exposure != "known":
            raise FitError(
                f"the model spec '{self.spec.name}' needs columns that a fit does not store; build"
                " it from the table: bayescontam.build_model(fit.spec, table)"
            )

        return build(self.spec, self.responses(), self.record["difficulties"]).model

    def assumed_spillover(self) -> pd.DataFrame:
        """Return total effects by what is assumed of spillover, where nothing identifies it.

        Returns
        -------
        pandas.DataFrame
            One row for each ``model``, ``benchmark`` and ``location`` of the Normal prior of the
            coefficient of spillover (log-odds that all items gain if all were contaminated; its
            standard deviation is that of coefficients of published twins, 1.3, whose mean is
            0.7): ``mean``, ``low``, ``high`` (equal-tailed interval at the level of the fit) and
            ``p_positive`` of the total effect; ``sign_at``, the nearest location at which its
            sign becomes certain or uncertain, and ``sign``, all of them in words. Of a fit with
            lineage only exposed pairs without a twin, whose own estimate rests on other bases
            and benchmarks. Empty where twins, or one coefficient for all, show spillover, or
            nobody was exposed.
        """
        known = self.data[ASSUMED].to_dataset() if ASSUMED in self.data else None
        return assumed_table(known)

    def confounding(self) -> pd.DataFrame:
        """Return what the fit would say if contaminated items were assumed harder or easier.

        Draws are weighed as if the prior of ``kappa`` had other locations; nothing is
        sampled again.

        Returns
        -------
        pandas.DataFrame
            One row for each ``changed`` (``"all"``: the priors of all benchmarks have the
            location, as a model spec would say it; ``"own"``: only that of the row's, given
            where there are several), ``model``, ``benchmark`` and ``location`` (log-odds by
            which surely contaminated items are harder than clean ones; negative: easier).
            ``genuine_ability, overfitting, slope`` (the former two with ``_direct`` where the
            fit has no spillover) with ``_low`` and ``_high`` (equal-tailed interval at the
            level of the fit) and ``p_positive`` (of overfitting); NaN outside
            ``reach_low`` to ``reach_high``, where weights cannot be trusted: ``pareto_k`` is
            above 0.7, or ``ess`` (independent draws that the less certain end of
            overfitting's interval is worth) below 200. ``sign_at`` is the nearest location at
            which the sign of overfitting becomes certain or uncertain (NaN: none within
            reach), ``sign`` says all of them in words. Empty unless the model spec has
            ``confounding = "sensitivity"`` and items differ in contamination.

        References
        ----------
        Vehtari, Simpson, Gelman, Yao & Gabry (2024), arXiv:1507.02646.
        """
        curves = self.data["confounding"].to_dataset() if "confounding" in self.data else None
        return confounding_table(curves, EffectNames.among(self.data["estimands"]) or DIRECT)

    def report(
        self,
        path: Path,
        *,
        compare: "FitsOrFiles | None" = None,
        scan: "Scan | None" = None,
        curve: "Curve | None" = None,
        tasks: "ArcTasks | Path | None" = None,
        predictions: "Paths" = (),
        solver: "Names" = (),
        logs: Path | None = None,
        title: str = "",
        note: str = "",
        tables: Path | None = None,
        progress: bool = False,
    ) -> None:
        """Write the report: one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
            Where to write it. Replaced if it exists, whole or not at all.
        compare : sequence or mapping of Fit or path-like, optional
            Other fits of the same responses: the report compares this one with them.
        scan : Scan, optional
            Scan that the covariates come from: with `curve` the report lists the most
            contaminated items with the texts that matched them.
        curve : Curve, optional
            Curve that the covariates come from.
        tasks : ArcTasks, str or path-like, optional
            ARC tasks that the items are of, see `load_tasks`: the report draws the most
            informative ones as grids.
        predictions : path-like or sequence of path-like, optional
            With `tasks`, solvers' attempts, which are drawn beside the solutions; formats as
            for `import_arc_predictions`.
        solver : str or sequence of str, optional
            Name of the solver in the fit, or ``LABEL=NAME`` where there are several, if
            predictions are named otherwise.
        logs : str or path-like, optional
            Folder of the logs that were imported, or the address where it is served, such as
            that of Inspect View: answers to the listed items link to their samples.
        title : str, optional
            Heading of the page.
        note : str, optional
            Note below the heading, such as what contamination means in the table. Blank
            lines separate paragraphs.
        tables : path-like, optional
            Folder to which every table of the page is written as CSV, whole: of large
            fits the page has parts of some.
        progress : bool, default False
            Whether to show a progress bar.

        Raises
        ------
        UsageError
            If only one of `scan` and `curve` is given, or they do not go together; if
            predictions are given without tasks, or `solver` without predictions; if no item is
            of these tasks; if the fit holds no names of logs, or `logs` none of these.
        FitError
            If the other fits are of other responses.
        """
        from bayescontam.inference.crossval import compare as compare_fits
        from bayescontam.inference.named_fits import compared_with
        from bayescontam.report.arc_grids import match_items
        from bayescontam.report.evidence import gather
        from bayescontam.report.fit_page import write_report

        if (scan is None) != (curve is None):
            raise UsageError("report: give both, scan and curve, or neither")
        evidence = gather(scan, curve) if scan is not None and curve is not None else None
        arc = None
        if tasks is not None or predictions or solver:
            arc = match_items(self, tasks, predictions, solver)
        comparison = compare_fits(compared_with(self, compare)) if compare else None
        write_report(
            self,
            path,
            comparison=comparison,
            evidence=evidence,
            arc=arc,
            logs=logs,
            title=title,
            note=note,
            tables_in=tables,
            progress=progress,
        )
