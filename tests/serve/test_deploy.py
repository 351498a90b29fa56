"""The files for containers: valid, without root, and in agreement with the command line."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from shell import run_here

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def flags(arguments: list[str]) -> set[str]:
    """The options among some arguments."""
    return {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}


def test_every_flag_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """No file uses an option that `elmox serve` does not have."""
    _, help_text, _ = run_here(["serve", "--help"], capsys)
    entry = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", dockerfile(), re.MULTILINE)
    used = [yaml.safe_load(document) for document in entry]
    used.append(documents("compose.yaml")[0]["services"]["elmox"]["command"])
    used.append(container()["args"])
    assert used[0][:2] == ["elmox", "serve"]
    for flag in set.union(*map(flags, used)):
        assert f"{flag} " in help_text or f"{flag}\n" in help_text, flag


def dockerfile() -> str:
    """The Dockerfile, without continued lines."""
    return (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", "")


def container() -> dict[str, Any]:
    """The container of the Kubernetes example."""
    [deployment] = [
        document for document in documents("kubernetes.yaml") if document["kind"] == "Deployment"
    ]
    [only] = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_the_image_runs_without_root_and_checks_its_health() -> None:
    """Every instruction is known; what is copied exists."""
    text = dockerfile()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "COPY", "RUN", "USER", "ENV", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {line.split()[0] for line in lines} == known | {"ENTRYPOINT", "CMD"}
    assert re.search(r"^USER \d+$", text, re.MULTILINE)
    assert "/readyz" in text
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for name in shlex.split(line)[1:-1]:
                assert (DEPLOY.parent / name).exists(), name


def test_probes_limits_and_time_to_drain() -> None:
    """Kubernetes waits at least as long as the server may take to stop."""
    probes = {name: probe for name, probe in container().items() if name.endswith("Probe")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths == {
        "startupProbe": "/readyz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    [deployment] = [
        document for document in documents("kubernetes.yaml") if document["kind"] == "Deployment"
    ]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 5 + 30
    assert pod["securityContext"]["runAsNonRoot"]
    kinds = {document["kind"] for document in documents("kubernetes.yaml")}
    assert {"Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"} < kinds


def test_prometheus_reads_metrics_that_exist() -> None:
    """The rules name metrics of the server."""
    from elmox.serve.metrics import Metrics

    rendered = Metrics().render().decode()
    rules = (DEPLOY / "prometheus" / "alerts.yaml").read_text("utf-8")
    for name in re.findall(r"elmox_[a-z_]+", rules):
        assert re.sub("_(total|bucket)$", "", name) in rendered, name
    [config] = documents("prometheus/prometheus.yaml")
    assert config["scrape_configs"][0]["static_configs"][0]["targets"] == ["elmox:8000"]
    assert (DEPLOY / "prometheus" / config["rule_files"][0]).exists()
