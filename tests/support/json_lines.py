"""Files of JSON Lines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a row a line, and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
