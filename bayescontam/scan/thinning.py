"""Stratified samples of documents, the same in whatever order and pieces the corpus is read.

Every document has a priority: a hash of seed, source and name, as good as uniform over the
64-bit integers. Of a stratum with N documents, the ceil(share × N) of lowest priority are the
sample: bottom-k sampling, which is simple random sampling without replacement, in every
stratum apart [1]_. N is known only when all has been read, so every input is first thinned
out to candidates, independently of all others; `bayescontam.scan.cutoffs` then finds how far
down each stratum is sampled.

Thinning keeps a document if its priority is below 1.5 × share × 2⁶⁴, or no more than the
256th lowest so far of its stratum in this input. Why nothing of the sample can get lost
unnoticed: let c be the larger of both bounds when the input ends (2⁶⁴ if the input has fewer
than 256 documents of the stratum). The 256th lowest only falls while reading, so every
document with priority <= c was stored. Hence below the least c of all inputs the candidates are
complete; if the k-th lowest candidate lies there, it is the k-th lowest document. That is
verified for every stratum, and an error if it fails.

How often it fails: never for k <= 256, as the k lowest documents of a stratum are then among
the 256 lowest of their inputs. For k > 256, only if fewer than k = ceil(s N) of N documents lie
below 1.5 s × 2⁶⁴. Their number is binomial with mean m = 1.5 s N > 384, and the Chernoff bound
P(X <= (2/3) m) <= exp(-m (1/3 + (2/3) log(2/3))) is below 4e-11 at m = 384 and falls from there.

References
----------
.. [1] E. Cohen and H. Kaplan (2007). Summarizing data using bottom-k sketches. Proceedings of
   the 26th ACM Symposium on Principles of Distributed Computing, 225-234.
   https://doi.org/10.1145/1281100.1281133
"""

import hashlib
import heapq

HIGHEST = 2**64 - 1
"""Highest priority there is."""

MARGIN = 1.5
"""Candidates for each document of the sample, about."""

SURE = 256
"""Documents of lowest priority that are candidates in every stratum of an input."""


def priority(seed: int, source: str, document: str) -> int:
    """Return the rank of a document in the lottery, uniform over the 64-bit integers."""
    key = f"{seed}\x1f{source}\x1f{document}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")


class Thinner:
    """Decides which documents of one input may be in the sample."""

    def __init__(self, share: float) -> None:
        self._below = min(HIGHEST + 1, int(MARGIN * share * 2**64))
        self._lowest: dict[str, list[int]] = {}

    def keeps(self, stratum: str, rank: int) -> bool:
        """Return whether to keep a document of priority `rank`."""
        if self._below > HIGHEST:
            return True
        # A heap of negative numbers has the highest priority in front.
        lowest = self._lowest.setdefault(stratum, [])
        if len(lowest) < SURE:
            heapq.heappush(lowest, -rank)
            return True
        if rank < -lowest[0]:
            heapq.heapreplace(lowest, -rank)
            return True
        return rank < self._below or rank == -lowest[0]

    def complete_to(self, stratum: str) -> int:
        """Return the priority up to which every document of a stratum was stored."""
        lowest = self._lowest.get(stratum, [])
        if len(lowest) < SURE:
            return HIGHEST
        return max(self._below - 1, -lowest[0])
