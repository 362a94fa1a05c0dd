"""Verb ``models``: the model specs that ship with the package."""

from typing import Annotated

import typer

EXAMPLES = """
Examples:

bayescontam models list

bayescontam models show hierarchical
"""
LIST_EXAMPLE = "Example: bayescontam models list"
SHOW_EXAMPLES = """
Examples:

bayescontam models show hierarchical

bayescontam models show hierarchical --toml > mine.toml
"""
app = typer.Typer(
    help="Model specs: what ships with the package, and what one says.", no_args_is_help=True
)


@app.command("list", epilog=LIST_EXAMPLE)
def list_models() -> None:
    """List the model specs that ship with the package."""
    from bayescontam.specs.catalogue import load_spec, shipped_models

    names = shipped_models()
    width = max(map(len, names))
    for name in names:
        print(f"{name:<{width}}  {load_spec(name).summary}")
    print(
        "\nUse one with --model NAME. To make your own: models show NAME --toml > mine.toml,"
        " change it and pass --model mine.toml."
    )


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    name: Annotated[
        str,
        typer.Argument(help="Name of a model spec, or path of a .toml file.", show_default=False),
    ],
    file_only: Annotated[
        bool, typer.Option("--toml", help="Print only the file, to copy and change.")
    ] = False,
) -> None:
    """Print a model spec: its file, its mathematics, and what its priors mean."""
    from bayescontam.specs.catalogue import load_spec

    spec = load_spec(name)
    if file_only:
        print(spec.text, end="")
        return
    from bayescontam.inference.mathematics import mathematics, prior_meanings

    print(f"# {spec.name} ({spec.hash[:12]})\n\n{spec.text}")
    print("# Mathematics\n")
    for line in mathematics(spec):
        print(f"    {line}")
    print("\n# What the priors mean for accuracy\n")
    for parameter, prior, meaning in prior_meanings(spec):
        print(f"    {parameter} ~ {prior}\n        {meaning}")
