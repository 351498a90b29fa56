"""Seeds for random numbers that depend on nothing but what they are for.

Training keeps no hidden random state: whatever is random is drawn from a generator that is seeded
with a key such as (purpose, seed, step, direction). A run that is resumed, or spread over another
number of processes, thus draws the numbers of an undisturbed one.
"""

import hashlib


def mixed_seed(*key: int | str) -> int:
    """Turn a key into a seed for a generator of torch or NumPy.

    Keys that differ in any part, or in the order of their parts, give seeds that have nothing to
    do with each other. A word for the purpose keeps apart uses that are otherwise keyed alike.

    Returns:
        an integer from 0 to 2**63 - 1. (Of it, torch's CPU generator heeds the low 32 bits.)
    """
    # str, not repr: NumPy's 3 must be Python's 3.
    text = " ".join(str(part) for part in key)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
