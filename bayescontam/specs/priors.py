"""Prior distributions as a spec names them.

Families and parameters are those of PyMC, so that whoever knows one knows the other.
"""

from typing import Annotated, Literal

from pydantic import Field

from bayescontam.specs.base import Block

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Family(Block):
    family: str

    def parameters(self) -> dict[str, float]:
        """Return the parameters under PyMC's names."""
        return self.model_dump(exclude={"family"})

    def text(self) -> str:
        """Return the distribution in plain text, as PyMC's documentation writes it."""
        values = ", ".join(f"{value:g}" for value in self.parameters().values())
        return f"{type(self).__name__}({values})"


class Normal(_Family):
    """Normal distribution with mean `mu` and standard deviation `sigma`."""

    family: Literal["normal"]
    mu: Finite = 0.0
    sigma: Positive


class Logistic(_Family):
    """Logistic distribution; ``mu = 0, s = 1`` makes the accuracy uniform."""

    family: Literal["logistic"]
    mu: Finite = 0.0
    s: Positive


class StudentT(_Family):
    """Student's t with `nu` degrees of freedom, location `mu` and scale `sigma`."""

    family: Literal["student_t"]
    nu: Positive
    mu: Finite = 0.0
    sigma: Positive


class HalfNormal(_Family):
    """Normal distribution of mean 0 and standard deviation `sigma`, cut to values >= 0."""

    family: Literal["half_normal"]
    sigma: Positive


class HalfStudentT(_Family):
    """Student's t with `nu` degrees of freedom and scale `sigma`, cut to values >= 0."""

    family: Literal["half_student_t"]
    nu: Positive
    sigma: Positive


class Exponential(_Family):
    """Exponential distribution of mean `scale`."""

    family: Literal["exponential"]
    scale: Positive


class LogNormal(_Family):
    """Distribution whose logarithm is Normal with mean `mu` and standard deviation `sigma`."""

    family: Literal["log_normal"]
    mu: Finite = 0.0
    sigma: Positive


class Beta(_Family):
    """Beta distribution of values in [0, 1], of mean ``alpha / (alpha + beta)``."""

    family: Literal["beta"]
    alpha: Positive
    beta: Positive


class Dirichlet(_Family):
    """Distribution of parts of a whole, all alike, with concentration `alpha` each.

    1 makes all ways to part it equally probable; larger values prefer equal parts, smaller
    ones few large parts. Below 0.05 one part would be all, and the others so small that
    computers take them for zero, where the density is infinite.
    """

    family: Literal["dirichlet"]
    alpha: Annotated[float, Field(ge=0.05, allow_inf_nan=False)]


Prior = Normal | Logistic | StudentT | HalfNormal | HalfStudentT | Exponential
AnyPrior = Annotated[Prior, Field(discriminator="family")]
RealPrior = Annotated[Normal | Logistic | StudentT, Field(discriminator="family")]
PositivePrior = Annotated[HalfNormal | HalfStudentT | Exponential, Field(discriminator="family")]
