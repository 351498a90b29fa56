"""`python -m elmox`: the command line, for launchers that start a module."""

from elmox.cli.main import run

if __name__ == "__main__":
    run()
