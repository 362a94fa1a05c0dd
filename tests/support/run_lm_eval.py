"""Has lm-evaluation-harness run tasks of a lab, without network.

Run as a script with the folder of the tasks, that of a model, and one to write logs into.
"""

import os
import sys
from functools import partial
from pathlib import Path


def run(tasks: Path, model: Path, out: Path) -> None:
    """Run all tasks of a folder as its command line does."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=str(out / "home"))
    import lm_eval.loggers.utils
    import lm_eval.tasks
    from lm_eval.__main__ import cli_evaluate

    # Reading the thousands of tasks that ship with the tool takes most of a minute.
    lm_eval.tasks.TaskManager = partial(lm_eval.tasks.TaskManager, include_defaults=False)
    lm_eval.loggers.utils.get_pretty_env_info = lambda: ""
    names = ",".join(path.stem for path in sorted(tasks.glob("*.yaml")))
    sys.argv = [
        "lm_eval", "run", "--model", "hf", "--model_args", f"pretrained={model}",
        "--tasks", names, "--include_path", str(tasks), "--device", "cpu", "--batch_size", "8",
        "--output_path", str(out / "logs"), "--log_samples",
    ]  # fmt: skip
    cli_evaluate()


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:]))
