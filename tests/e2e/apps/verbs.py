"""Runs verbs of ``celery -A app parrot`` one after the other in one process, which is quicker than one process each.

``python -m tests.e2e.apps.verbs APP`` reads a JSON list of argument lists and prints a JSON list of
``[exit code, output]``. Logs go to standard error, as a verb's own do.
"""

from __future__ import annotations

import json
import sys
import traceback

from celery.bin.celery import celery
from click.testing import CliRunner


def main() -> None:
    """As the docstring of the module says."""
    runner, told = CliRunner(), []
    for arguments in json.load(sys.stdin):
        result = runner.invoke(celery, ["-A", sys.argv[1], *arguments])
        output = result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            output += "".join(traceback.format_exception(result.exception))
        told.append([result.exit_code, output])
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
