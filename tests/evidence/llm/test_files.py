"""Judgements added to a file: what it holds stays."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.judgements import Judgements, read_judgements, write_judgements
from bayescontam.endpoint import Endpoint
from bayescontam.errors import UsageError
from bayescontam.evidence.llm import add_judgements
from tests.evidence.llm.conftest import made_pairs
from tests.support.llm_server import Server, completion, fault, verdict

Make = Callable[..., Endpoint]
BY = (
    "by 'llm:small', whatever its prompt and temperature were; to judge them by others, name"
    " another judge: --judge"
)


@pytest.mark.parametrize("name", ["judged.csv", "judged.parquet"])
def test_only_what_is_unjudged_is_replaced(
    server: Server, endpoint: Make, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    keys = made_pairs(4)[["benchmark", "item", "source", "document", "chunk"]]
    earlier = pd.concat(
        [
            keys.head(2).assign(judge="Ada", is_duplicate=0),
            keys.head(2).assign(judge="llm:small", is_duplicate=pd.array([0, None], "Int8")),
            keys.head(2).assign(judge="llm:other", is_duplicate=0),
        ]
    )
    write_judgements(out, Judgements.from_frame(earlier))
    added = add_judgements(out, made_pairs(4), endpoint())
    assert sorted(request.texts[0][-1] for request in server.requests) == ["1", "2", "3"]
    frame = read_judgements(out).frame
    verdicts = {judge: group["is_duplicate"].tolist() for judge, group in frame.groupby("judge")}
    assert verdicts == {"Ada": [0, 0], "llm:other": [0, 0], "llm:small": [0, 1, 1, 1]}
    assert added.earlier == [f"1 of 4 pairs are judged in {out} already {BY}"]
    assert added.notes[-1] == f"3 pairs were judged, 3 of them duplicates: {out}"


def test_what_is_judged_costs_nothing(server: Server, endpoint: Make, tmp_path: Path) -> None:
    out = tmp_path / "judged.csv"
    add_judgements(out, made_pairs(3), endpoint())
    before = out.read_bytes()
    server.script(fault(500))
    assert add_judgements(out, made_pairs(3), endpoint()) == (
        [f"3 of 3 pairs are judged in {out} already {BY}"], []
    )  # fmt: skip
    assert (len(server.requests), out.read_bytes()) == (3, before)


def test_unjudged_stays_unjudged_until_it_is_judged(
    server: Server, endpoint: Make, tmp_path: Path
) -> None:
    out = tmp_path / "judged.csv"
    for reply, expected in (
        (completion("?"), "unjudged (unparsable)"),
        (completion(None), "unjudged (refused)"),
        (verdict(reasoning='=1+1, "quoted"\nline'), '=1+1, "quoted"\nline'),
    ):
        server.script(reply)
        add_judgements(out, made_pairs(2), endpoint())
        frame = read_judgements(out).frame
        assert frame["comment"].str.startswith(expected).tolist() == [True, True]
        assert frame["is_duplicate"].isna().all() == expected.startswith("unjudged")


def test_an_error_leaves_the_file_as_it_was(server: Server, endpoint: Make, tmp_path: Path) -> None:
    out = tmp_path / "judged.csv"
    add_judgements(out, made_pairs(1), endpoint())
    before = out.read_bytes()
    server.script(fault(401))
    with pytest.raises(UsageError):
        add_judgements(out, made_pairs(3), endpoint())
    assert out.read_bytes() == before


@pytest.mark.parametrize("name", ["judged.txt", "nowhere/judged.csv"])
def test_a_file_that_cannot_be_written_costs_no_call(
    server: Server, endpoint: Make, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError):
        add_judgements(tmp_path / name, made_pairs(1), endpoint())
    assert server.requests == []
