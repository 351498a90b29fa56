"""A sentence of 50,000 tokens: windows with carried state, equal to the unwindowed pass, in little
memory. Runs in processes of their own, because peak memory is a process's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = """
import json, pathlib, re, resource, sys
import numpy as np, torch
from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig
from elmox.elmo import Elmo
from elmox.model.checkpoint import Checkpoint
from elmox.model.init import random_bilm
from elmox.inference.layer_choice import choose_layers

def peak():  # kB; where there is /proc, without what the parent had when it started us
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

window = int(sys.argv[1])
config = ElmoConfig(
    lstm=LstmConfig(cell_dim=256, projection_dim=16),
    char_cnn=CharCnnConfig(filters=((1, 8), (2, 16)), embedding_dim=4, num_highways=1),
)
elmo = Elmo(Checkpoint(config, random_bilm(config, seed=3).state_dict(), description="random"))
sentence = [f"w{(i * i) % 499}" for i in range(50_000)]
elmo.encode_tokens([sentence[:100]])
before = peak()
choice = choose_layers("top", 3, {})
vectors, _ = elmo.reader.read([sentence], elmo.start_state(1), choice, window)
after = peak()
np.save(sys.argv[2], vectors.values.numpy())
print(json.dumps((after - before) / 1024))
"""


def peak_growth_mb(window: int, output: str) -> float:
    command = [sys.executable, "-c", SCRIPT, str(window), output]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # one row a step: threads only wait
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(json.loads(done.stdout))


def test_fifty_thousand_tokens(tmp_path: Path) -> None:
    windowed = peak_growth_mb(512, f"{tmp_path}/windowed.npy")
    whole = peak_growth_mb(10**9, f"{tmp_path}/whole.npy")
    ours, expected = np.load(f"{tmp_path}/windowed.npy"), np.load(f"{tmp_path}/whole.npy")
    assert ours.shape == (1, 50_002, 32)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-6)
    # The unwindowed pass holds the 50,000 x 1,024 gate products of at least one direction, 200 MB.
    assert whole > 180
    assert windowed < 80
