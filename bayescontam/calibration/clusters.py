"""Clusters: means over rows, with errors that know which rows belong together."""

from dataclasses import dataclass

import numpy as np

from bayescontam._types import FloatArray, IntArray


@dataclass(frozen=True)
class Means:
    """Mean of each group, dims (group,)."""

    mean: FloatArray  # naN where a group has no value
    # monte Carlo standard error. Values of one cluster may depend on each other in any way,
    # clusters are independent. NaN where a group has fewer than two clusters.
    error: FloatArray
    # count, clusters: values, and clusters that have any
    count: IntArray
    clusters: IntArray


def clustered_means(values: FloatArray, group: IntArray, cluster: IntArray, groups: int) -> Means:
    """Return the mean of each group with its cluster-robust standard error.

    The mean is a ratio of two sums over clusters, and its error that of such a ratio
    (Cochran 1977, Sampling Techniques, section 6.4), because clusters may differ in size.
    With one value in each cluster it is the usual standard error of a mean.
    """
    known = np.isfinite(values)
    values, group, cluster = values[known], group[known], cluster[known]
    found, first, which = np.unique(cluster, return_index=True, return_inverse=True)
    owner = group[first]
    sums = np.bincount(which, values, minlength=len(found))
    sizes = np.bincount(which, minlength=len(found)).astype(float)
    count = np.bincount(group, minlength=groups)
    clusters = np.bincount(owner, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group, values, minlength=groups) / count
        squares = np.bincount(owner, (sums - mean[owner] * sizes) ** 2, minlength=groups)
        error = np.sqrt(squares * clusters / (clusters - 1)) / count
    return Means(mean, np.where(clusters > 1, error, np.nan), count, clusters)
