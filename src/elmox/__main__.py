"""The entry point of the command line: `elmox`, and `python -m elmox` for launchers of modules.

Importing the verbs takes a moment, in which Ctrl-C must not print a traceback either.
"""

import sys


def run() -> None:
    """Run the command line and exit with the right code."""
    from elmox.cli.streams import keep_messages_harmless
    from elmox.threads import wait_passively

    keep_messages_harmless()
    wait_passively()  # before torch is imported
    try:
        from elmox.cli.main import run as run_verb

        run_verb()
    except KeyboardInterrupt:
        sys.stderr.write("elmox: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
