"""The Python interface of scans: what the command line does, as a function."""

import os
from pathlib import Path
from typing import Literal

from bayescontam.scan.pipeline import Execution
from bayescontam.scan.results import Scan
from bayescontam.scan.run import scan_corpus
from bayescontam.specs.catalogue import load_manifest
from bayescontam.specs.corpus import Manifest

__all__ = ["Scan", "run_scan"]


def run_scan(
    manifest: Manifest | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None = None,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    skip_unreadable: bool = False,
    replace: bool = False,
    keep_work: bool = False,
    progress: bool = False,
    command: str = "",
) -> Scan:
    """Search a corpus for the items of benchmarks, or resume an interrupted scan.

    Parameters
    ----------
    manifest : Manifest, str or path-like
        Corpus manifest, the name of a shipped one, or the path of a TOML file.
    out : path-like
        Folder of the scan. What an interrupted scan of the same manifest left there is
        used; a finished one is returned as it is.
    base : path-like, optional
        Folder that relative paths start at. Default: that of the manifest's file, else the
        current folder.
    engine : {"local", "ray"}, default "local"
        Worker processes of this machine, or actors of a Ray cluster, whose machines must
        all see the files and `out` under the same paths.
    jobs : int, optional
        Workers. Default: one for each core or, on a GPU, one (with Ray, one for each GPU).
    address : str, optional
        Ray cluster; default: one is started on this machine.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where embedding and search run; ``"auto"`` is a GPU where this machine has one.
    skip_unreadable : bool, default False
        Whether files that cannot be read are counted; otherwise they stop the scan.
    replace : bool, default False
        Whether the finished scan of another manifest may be replaced.
    keep_work : bool, default False
        Whether to keep sampled documents, chunks and sketches in ``out/work``.
    progress : bool, default False
        Whether to show progress bars.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    Scan
        The result does not depend on engine or number of jobs.

    Raises
    ------
    SpecError, UsageError
        If the manifest or an option cannot be used.
    DataError
        If a file cannot be read, or nothing is left to search.
    TaskError
        If a task fails, or its worker is killed again and again.
    MissingExtraError
        If the extra 'scan' (or 'ray') is not installed.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.run_scan("ofline-demo", "out")
    Traceback (most recent call last):
        ...
    bayescontam.errors.SpecError: corpus manifest 'ofline-demo': no such corpus manifest ...
    """
    execution = Execution(engine, jobs, address, device, skip_unreadable, progress)
    if not isinstance(manifest, Manifest):
        # That of a shipped manifest's name is the current folder.
        base = Path(manifest).parent if base is None else base
        manifest = load_manifest(manifest)
    return scan_corpus(
        manifest,
        out,
        base=base or ".",
        execution=execution,
        replace=replace,
        keep_work=keep_work,
        command=command,
    )
