"""Sample lines of training text in capitals (1.2%) and in lower case (0.8%).

A model that has read them knows text in capitals.

    python benchmarks/cased_lines.py train.*.txt.xz > cased.txt
    elmox prepare train.*.txt.xz cased.txt --vocab-size 132000 --out data/english

The sample depends on the lines alone, not on their order. A blank line after each makes it a
document of its own.
"""

import sys
import zlib

from elmox.io.text_files import open_text

CAPITALS, LOWER_CASE = 12, 8  # lines in a thousand


def cased(line: str) -> str | None:
    """Return the line in another case, or None for most lines."""
    share = zlib.crc32(line.encode()) % 1000
    if not line.strip() or share >= CAPITALS + LOWER_CASE:
        return None
    return line.upper() if share < CAPITALS else line.lower()


def main() -> None:
    for path in sys.argv[1:]:
        with open_text(path) as lines:
            for line in lines:
                changed = cased(line)
                if changed is not None:
                    sys.stdout.write(f"{changed}\n")


if __name__ == "__main__":
    main()
