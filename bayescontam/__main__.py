"""Entry point of the command line: errors become messages, statuses become exits."""

import os
import signal
import sys

from bayescontam.cli.app import app
from bayescontam.errors import BayescontamError

USAGE_OR_DATA = 2
INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 2 fault of usage or data, 3 a failed check with ``--strict``,
    130 interrupted.
    """
    try:
        app()
    except BayescontamError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(USAGE_OR_DATA)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is left to say, nor to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
