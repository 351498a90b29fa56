"""Seeds for random numbers that depend only on their purpose.

Training keeps no hidden random state: everything random is drawn from a generator that is seeded
with a key such as (purpose, seed, step, direction). A run that is resumed, or spread over another
number of processes, therefore draws the same numbers as an undisturbed one.
"""

import hashlib


def mixed_seed(*key: int | str) -> int:
    """Turn a key into a seed for a generator of torch or NumPy.

    Keys that differ in any part, or in the order of their parts, give unrelated seeds. A word for
    the purpose separates uses that are otherwise keyed alike.

    Returns:
        An integer from 0 to 2**63 - 1. (torch's CPU generator uses only its low 32 bits.)
    """
    # str, not repr: NumPy's 3 must give the seed of Python's 3.
    text = " ".join(str(part) for part in key)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
