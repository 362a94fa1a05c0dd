"""Commands ``lab …``: models trained with known contamination, and the truth from clean twins."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, Typer

from bayescontam._format import level_text
from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.calls import (
    ADDRESS,
    API_KEY,
    ApiKeyEnv,
    CacheFolder,
    Concurrency,
    Effort,
    ExtraBody,
    MaxCalls,
    MaxTokensTotal,
    Retries,
    Timeout,
    endpoint_of,
    in_calls,
)
from bayescontam.cli.options import (
    FileOnly,
    Format,
    Level,
    PageFormat,
    Quiet,
    RayAddress,
    ScanFolder,
    Workplace,
    check_file,
    examples,
    in_execution,
)
from bayescontam.cli.terminal import (
    print_lines,
    print_list,
    print_notes,
    print_table,
    put_csv,
    put_json,
    quoted,
    resumable,
    room_of_output,
)

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.specs.lab import LabSpec

EXAMPLES = examples(
    "bayescontam lab mix smoke --out lab",
    "bayescontam lab train lab",
    "bayescontam lab answer lab",
    "bayescontam lab truth lab",
)
in_files = partial(Option, rich_help_panel="Files, in place of the spec's")
app = Typer(
    help="Laboratory: models trained with known contamination, and the truth from clean twins.",
    no_args_is_help=True,
)

SpecName = Annotated[str, Argument(metavar="SPEC", help="Name of a lab, or path of a .toml file.")]
LabFolder = Annotated[Path, Argument(metavar="DIR", help="Folder that 'lab mix' wrote.")]
Jobs = Annotated[
    int | None,
    in_execution("--jobs", "-j", help="Models at a time; default: one for each core."),
]
Device = Annotated[str, in_execution(help="Where torch computes: cpu, cuda, cuda:1, ….")]
Gpus = Annotated[float, in_execution(help="Share of a GPU, or GPUs, for each model on Ray.")]
Accuracy = Annotated[
    Literal["auto", "probability", "replies"],
    Option(
        help="What accuracy is: the probability of the answer, or the share of right replies;"
        " auto: the former where replies are the answer itself."
    ),
]


@app.command("list", epilog="Example: bayescontam lab list")
def list_labs() -> None:
    """List the labs that ship with the package."""
    from bayescontam.specs.registry import load_lab, shipped_labs

    print_list((name, load_lab(name).summary) for name in shipped_labs())
    print()
    print_lines(
        [
            "Mix one with: bayescontam lab mix NAME --out DIR. To make your own: lab show NAME"
            " --toml > mine.toml, change it (lab keys lists what it may hold) and give mine.toml."
        ]
    )


@app.command(
    "show",
    epilog=examples(
        "bayescontam lab show arithmetic",
        "bayescontam lab show arithmetic --toml > mine.toml",
    ),
)
def show(name: SpecName, file_only: FileOnly = False) -> None:
    """Print a lab: its file, and in words which models are trained."""
    from bayescontam.specs.registry import load_lab

    spec = load_lab(name)
    if file_only:
        print(spec.text, end="")
        return
    print(f"# {printable(spec.name)} ({spec.hash[:12]})\n\n{spec.text.rstrip()}\n")
    print("# In words\n")
    print_lines(_account(spec))


def _account(spec: "LabSpec") -> Iterator[str]:
    """Yield sentences on what a lab trains."""
    training, answers = spec.training, spec.answers
    bases, mixes = training.bases, len(spec.mixes)
    yield f"Models: {bases * mixes:,}, of {bases:,} bases × {mixes:,} mixes."
    if spec.pretraining is not None:
        first = spec.pretraining
        yield f"Each base is trained on {first.texts:,} texts first, {first.epochs:,} times."
    how = "low-rank adapters are" if training.lora else "all weights are"
    yield (
        f"Each mix has {spec.texts:,} texts, through which training goes {training.epochs:,} times;"
        f" {how} trained."
    )
    for mix in spec.mixes:
        if mix.copies:
            kind = "near texts" if mix.kind == "near" else f"{mix.kind} duplicates"
            exposed = level_text(spec.exposed)
            yield f"{mix.name}: {mix.copies:,} {kind} of each exposed item ({exposed} of all)."
    yield (
        f"Answers: {answers.replies:,} to each item at temperature {answers.temperature:g},"
        f" graded by '{answers.grade}'."
    )


@app.command(
    "keys",
    epilog=examples("bayescontam lab keys", "bayescontam lab keys --format markdown > keys.md"),
)
def keys(output: PageFormat = "text") -> None:
    """Print every key of a lab's file: what is allowed, the default, and what it means."""
    from bayescontam.specs.base import reference_text
    from bayescontam.specs.lab import LabSpec, lab_keys_page

    if output == "markdown":
        print(lab_keys_page(), end="")
        return
    for line in reference_text(LabSpec, room_of_output()):
        print(line)


@app.command(
    "mix",
    epilog=examples(
        "bayescontam lab mix smoke --out lab",
        "bayescontam lab mix mine.toml --out lab",
        "bayescontam lab mix mine.toml --out lab --background texts.jsonl.zst"
        " --duplicates duplicates.jsonl",
        then="Then: bayescontam lab train lab",
    ),
)
def mix(
    spec: SpecName,
    out: Annotated[Path, Option("--out", "-o", help="Folder of the lab; created if absent.")],
    background: Annotated[
        str | None, in_files(help="Documents without duplicates: a file, folder or data set.")
    ] = None,
    benchmark: Annotated[Path | None, in_files(help="Items of the benchmark.")] = None,
    duplicates: Annotated[
        Path | None, in_files(help="Semantic duplicates that 'duplicates make' wrote.")
    ] = None,
    controls: Annotated[
        Path | None, in_files(help="Items of a control benchmark, which has no duplicates.")
    ] = None,
    traces: Annotated[Path | None, in_files(help="Solutions that 'lab traces' wrote.")] = None,
    near: Annotated[Path | None, in_files(help="Near texts that 'lab near' wrote.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the training texts of a lab: clean ones, and the same with duplicates of some items.

    The twin has background in the place of the duplicates; all else is the same. The covariates
    record which items each mix exposes.
    """
    with stage(not quiet, "starting"):
        from bayescontam.lab.mix import make_mixes
        from bayescontam.specs.registry import load_lab
    lab = load_lab(spec)
    with resumable("finished texts"):
        made = make_mixes(
            lab, out, background=background, benchmark=benchmark, duplicates=duplicates,
            controls=controls, traces=traces, near=near, progress=not quiet,
        )  # fmt: skip
    print_notes(made.notes)
    if quiet:
        return
    halves = made.covariates.drop_duplicates(["benchmark", "item"])["half"].value_counts()
    counts = {name: int(halves.get(name, 0)) for name in ("seen", "unseen", "control")}
    print_table(_mix_table(made.covariates, lab), whole=True)
    models = lab.training.bases * len(lab.mixes)
    print_lines(
        [
            f"{counts['seen'] + counts['unseen']:,} items, of which {counts['seen']:,} are exposed,"
            f" and {counts['control']:,} controls; texts of {models:,} models in {quoted(out)}."
            f" Next: bayescontam lab train {quoted(out)}"
        ]
    )


def _mix_table(covariates: "pd.DataFrame", spec: "LabSpec") -> "pd.DataFrame":
    """Return what each mix has, a row each."""
    import pandas as pd

    sums = covariates.groupby("mix", sort=False)[["copies", "near"]].sum().to_dict("index")
    rows = [
        {
            "mix": mix.name, "kind": mix.kind, "texts": spec.texts,
            "duplicates": sums[mix.name]["copies"],
            "near_texts": sums[mix.name]["near"],
        }
        for mix in spec.mixes
    ]  # fmt: skip
    return pd.DataFrame(rows)


@app.command(
    "train",
    epilog=examples(
        "bayescontam lab train lab",
        "bayescontam lab train lab --device cuda --jobs 4",
        "bayescontam lab train lab --engine ray --address auto --device cuda --gpus 0.25",
        then="Interrupted? Run the same command again: it resumes, to the same weights. Then:"
        " bayescontam lab answer lab",
    ),
)
def train(
    folder: LabFolder,
    engine: Workplace = "local",
    address: RayAddress = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    gpus: Gpus = 0.0,
    quiet: Quiet = False,
) -> None:
    """Train the models of a lab: first the bases, if they are pretrained, then all mixes."""
    with stage(not quiet, "starting"):
        from bayescontam.lab.training_runs import train_lab
    with resumable("checkpoints and finished models"):
        table = train_lab(
            folder, engine=engine, jobs=jobs, address=address, device=device, gpus=gpus,
            progress=not quiet,
        )  # fmt: skip
    if quiet:
        return
    by_mix = table.groupby("mix", sort=False).agg(
        models=("base", "size"), epochs=("epochs", "first"), loss=("loss", "mean")
    )
    print_table(by_mix.reset_index(), whole=True)
    print_lines(
        [
            "loss: of the last epoch, nats per token, mean over bases.",
            f"{len(table):,} trainings are in {quoted(folder / 'models')}. Next: bayescontam lab"
            f" answer {quoted(folder)}",
        ]
    )


@app.command(
    "answer",
    epilog=examples(
        "bayescontam lab answer lab",
        "bayescontam lab answer lab --device cuda --jobs 2",
        then="Interrupted? Run the same command again: it resumes, to the same rows. Then:"
        " bayescontam lab truth lab, and bayescontam fit lab/responses.csv --out fit.nc",
    ),
)
def answer(
    folder: LabFolder,
    engine: Workplace = "local",
    address: RayAddress = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    gpus: Gpus = 0.0,
    quiet: Quiet = False,
) -> None:
    """Have the trained models answer all items, and grade their replies.

    Writes responses.csv once all models have answered: a table of responses with base, mix,
    contamination, and the probability of each answer.
    """
    with stage(not quiet, "starting"):
        from bayescontam.lab.answering import RESPONSES, answer_lab
        from bayescontam.lab.training_runs import read_lab
        from bayescontam.lab.truth import read_accuracies
    with resumable("answers of finished models"):
        table = answer_lab(
            folder, engine=engine, jobs=jobs, address=address, device=device, gpus=gpus,
            progress=not quiet,
        )  # fmt: skip
    models, left = table["model"].nunique(), int(table.attrs["left"])
    if left:
        print_lines(
            [
                f"{models:,} models have answered; {left:,} are not trained yet. {RESPONSES} is"
                f" written when all are: bayescontam lab train {quoted(folder)}, then this command"
                " again."
            ]
        )
    elif not quiet:
        _print_clean(read_accuracies(folder), read_lab(folder).twin)
        print_lines(
            [
                f"{len(table):,} responses of {models:,} models are in"
                f" {quoted(folder / RESPONSES)}. Next: bayescontam lab truth {quoted(folder)}"
            ]
        )


def _print_clean(answers: "pd.DataFrame", twin: str) -> None:
    """Print the accuracy of clean twins by base, and how much bases differ."""
    import pandas as pd

    from bayescontam.lab.truth import clean_accuracy

    table = clean_accuracy(answers, clean=twin)
    names = list(table["benchmark"].unique())
    wide = table.pivot(index="base", columns="benchmark", values="accuracy")
    wide = wide.loc[table["base"].unique(), names]
    ends = pd.DataFrame({"mean": wide.mean(), "sd between bases": wide.std()}).T
    shown = pd.concat([wide, ends]).rename_axis("base").reset_index()
    print_lines(["", f"Accuracy of the clean twins (mix {printable(twin, 60)}):"])
    print_table(shown, see_all="responses.csv")


@app.command(
    "truth",
    epilog=examples(
        "bayescontam lab truth lab",
        "bayescontam lab truth lab --level 0.9 --format csv > truth.csv",
        then="As a page: bayescontam lab report lab --out lab.html",
    ),
)
def truth(
    folder: LabFolder,
    level: Level = 0.95,
    accuracy: Accuracy = "auto",
    output: Format = "table",
    quiet: Quiet = False,
) -> None:
    """Estimate direct, spillover and total effects from the models and their clean twins.

    Intervals are over bases. The effects are also written to truth.csv in the folder.
    """
    with stage(not quiet, "comparing"):
        from bayescontam.lab.training_runs import read_lab
        from bayescontam.lab.truth import (
            CURVE,
            TRUTH,
            clean_accuracy,
            lab_truth,
            read_accuracies,
            truth_sentence,
        )

        effects = lab_truth(folder, level=level, measure=accuracy)
        spec, answers = read_lab(folder), read_accuracies(folder, accuracy)
        twin = spec.twin
    if output == "csv":
        put_csv(effects)
    elif output == "json":
        put_json({"effects": effects, "clean": clean_accuracy(answers, clean=twin)})
    else:
        _print_clean(answers, twin)
        print_lines(["Effects on accuracy, against the clean twins:"])
        names = {"low": "estimate_low", "high": "estimate_high"}
        spare = ("items", "bases", "copies", "kind", "item_se", "se")
        print_table(effects.rename(columns=names), spare, quoted(folder / TRUTH), whole=True)
        print_lines(
            [
                "se: error from the spread of bases. item_se: that of new items within bases.",
                truth_sentence(effects, answers, level),
                *([f"Effects at each epoch: {quoted(folder / CURVE)}"] * spec.training.checkpoints),
                f"Next: bayescontam lab report {quoted(folder)} --out lab.html",
            ]
        )


@app.command(
    "report",
    epilog=examples(
        "bayescontam lab report lab --out lab.html",
        "bayescontam lab report lab --out lab.html --level 0.9",
    ),
)
def report(
    folder: LabFolder,
    out: Annotated[Path, Option("--out", "-o", help="HTML page to write.")],
    level: Level = 0.95,
    accuracy: Accuracy = "auto",
    quiet: Quiet = False,
) -> None:
    """Write the page of a lab: mixes, losses, clean models, and true effects with pictures."""
    with stage(not quiet, "drawing"):
        from bayescontam.lab.answering import RESPONSES
        from bayescontam.lab.mix import COVARIATES, ITEMS, RECORD, SPEC
        from bayescontam.lab.truth import CURVE, TRUTH, truth_sentence
        from bayescontam.report.lab_page import write_lab_page

        own = (ITEMS, COVARIATES, SPEC, RECORD, RESPONSES, TRUTH, CURVE)
        check_file(out, [folder / name for name in own])
        results = write_lab_page(folder, out, level=level, measure=accuracy)
    if not quiet:
        print_lines(
            [truth_sentence(results.effects, results.answers, level), f"Wrote {printable(out)}."]
        )


@app.command(
    "task",
    epilog=examples(
        "bayescontam lab task lab --out tasks",
        then="Then: lm_eval --model hf --model_args pretrained=lab/models/base-0/clean"
        " --include_path tasks --tasks NAMES --log_samples --output_path logs, and"
        " bayescontam import lm-eval logs --keep name=doc.item --out responses.csv",
    ),
)
def task(
    folder: LabFolder,
    out: Annotated[Path, Option("--out", "-o", help="Folder for the tasks.")],
) -> None:
    """Write the benchmarks of a lab as tasks of lm-evaluation-harness, in place of 'lab answer'."""
    from bayescontam.lab.task import write_tasks
    from bayescontam.lab.training_runs import read_lab

    names = write_tasks(folder, out)
    spec = read_lab(folder)
    model = folder / "models" / "base-0" / spec.twin
    command = [
        "lm_eval", "--model", "hf", "--model_args", f"pretrained={model}", "--include_path",
        str(out), "--tasks", ",".join(names), "--log_samples", "--output_path", "logs",
    ]  # fmt: skip
    print_lines([f"Tasks: {', '.join(names)}. For each model: {shlex.join(command)}"])


@app.command(
    "traces",
    epilog=examples(
        "bayescontam lab traces mine.toml --base-url http://localhost:8000/v1 --model qwen3"
        " --out traces.jsonl",
        then="Interrupted, or the budget reached? Run the same command again: it resumes. Then:"
        " bayescontam lab mix mine.toml --traces traces.jsonl --out lab",
    ),
)
def traces(
    spec: SpecName,
    base_url: Annotated[str, Option(help=ADDRESS)],
    model: Annotated[str, Option(help="Name of the teacher there.")],
    out: Annotated[Path, Option("--out", "-o", help="File to write, JSON Lines.")],
    benchmark: Annotated[Path | None, in_files(help="Items of the benchmark.")] = None,
    duplicates: Annotated[
        Path | None, in_files(help="Semantic duplicates that 'duplicates make' wrote.")
    ] = None,
    prompt: Annotated[
        Path | None, Option(help="Text file with the prompt, in which $text and $ending stand.")
    ] = None,
    tries: Annotated[int, in_calls(help="Calls for a solution before it is a failure.")] = 3,
    max_tokens: Annotated[int, in_calls(help="Longest solution, in tokens.")] = 4096,
    temperature: Annotated[
        float | None, in_calls(help="Temperature of the teacher; default: its own.")
    ] = None,
    concurrency: Concurrency = 8,
    max_calls: MaxCalls = None,
    max_tokens_total: MaxTokensTotal = None,
    timeout: Timeout = 300.0,
    retries: Retries = 5,
    cache: CacheFolder = None,
    api_key_env: ApiKeyEnv = API_KEY,
    effort: Effort = None,
    extra_body: ExtraBody = "",
    quiet: Quiet = False,
) -> None:
    """Have a teacher solve what a lab's texts hold; models are then trained on its solutions.

    Only solutions that are right as the lab grades replies are written.
    """
    with stage(not quiet, "starting"):
        from bayescontam.lab.traces import write_traces
        from bayescontam.specs.registry import load_lab
    check_file(out, benchmark, duplicates)
    endpoint = endpoint_of(
        base_url, model, api_key_env=api_key_env, timeout=timeout, retries=retries,
        concurrency=concurrency, effort=effort, extra_body=extra_body, temperature=temperature,
    )  # fmt: skip
    with resumable("solutions"):
        found = write_traces(
            load_lab(spec), replace(endpoint, max_tokens=max_tokens), out, benchmark=benchmark,
            duplicates=duplicates, prompt=prompt, tries=tries, max_calls=max_calls,
            max_tokens=max_tokens_total, cache=cache or out.parent / "judge-cache",
            progress=not quiet,
        )  # fmt: skip
    print_lines([f"{len(found.rows):,} solutions in {printable(out)}."])
    if found.left:
        print_lines(
            [
                f"The budget is reached: {found.left:,} texts are left. Run the same command again"
                " to resume."
            ]
        )
    if not quiet:
        print_notes(found.notes)
    if len(found.failures):
        print_table(found.failures, whole=True)


@app.command(
    "near",
    epilog=examples(
        "bayescontam lab near scan --judgements judgements.csv --copies 2 --out near.jsonl",
        then="Then: bayescontam lab mix mine.toml --near near.jsonl --out lab",
    ),
)
def near(
    scan: ScanFolder,
    judgements: Annotated[
        Path, Option(help="Judgements of its pairs; texts that are not judged are not taken.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="File to write, JSON Lines.")],
    benchmark: Annotated[
        str, Option(help="Benchmark of the scan; default: the only one there.")
    ] = "",
    copies: Annotated[int, Option(help="Texts for each item, as far as there are.")] = 1,
) -> None:
    """Write texts of a scan that are most like items, and were judged to be no duplicates."""
    from bayescontam.lab.near import near_texts

    check_file(out, judgements)
    rows = near_texts(scan, judgements, out, benchmark=benchmark, copies=copies)
    items = len({row["item"] for row in rows})
    print_lines([f"{len(rows):,} texts near {items:,} items in {printable(out)}."])
