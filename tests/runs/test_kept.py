import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import weft
from weft.cli.main import run as command
from weft.errors import InputError
from weft.policies.order.fifo import Fifo
from weft.results.store import Store, results_folder, results_limit
from weft.runs import kept as kept_runs
from weft.runs import run as one
from weft.runs.cross import cross
from weft.runs.kept import identity, kept
from weft.scenario import Scenario
from weft.scenario.build import Experiment, Layers, build_stack
from weft.stacks import registry, resolve

SCENARIO: dict[str, Any] = {
    "cluster": {"topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 2},
    "workload": {
        "source": "poisson", "jobs": 6, "load": 0.9, "models": ["vgg16"], "gpus": {1: 0.5, 2: 0.5},
        "duration_median_s": 20,
    },
    "stack": {"name": "fifo"},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for results; kernels stay where they are."""
    monkeypatch.setattr("weft.results.store.cache_root", lambda: tmp_path)
    monkeypatch.setenv("WEFT_RESULTS_MB", "100")
    return results_folder()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The runs that were really done in this process: stack and seed."""
    done: list[tuple[str, int]] = []
    really = one.run_experiment

    def count(experiment: Experiment, **rest: Any) -> Any:
        done.append((experiment.stack.name, experiment.seed))
        return really(experiment, **rest)

    monkeypatch.setattr(one, "run_experiment", count)
    return done


def key(scenario: dict[str, Any], stack: str = "fifo", seed: int = 0, record: bool = False) -> str | None:
    given, layers = Scenario.load(scenario), Layers(stack)
    return identity(given, layers, build_stack(given, layers), seed, record)


def changed(**tables: dict[str, Any]) -> dict[str, Any]:
    return {**SCENARIO, **{name: {**SCENARIO.get(name, {}), **values} for name, values in tables.items()}}


def test_a_run_is_found_again_and_is_the_same(folder: Path, runs: list[tuple[str, int]]) -> None:
    said: list[str] = []
    with kept(say=said.append):
        first = weft.compare(SCENARIO, ["fifo", "srsf"], seeds=2, workers=1, record=True)
        again = weft.compare(SCENARIO, ["fifo", "srsf"], seeds=2, workers=1, record=True)
    assert len(runs) == 4
    assert said == ["4 of 4 runs were kept from before; --fresh runs them again"]
    assert json.dumps(first.to_dict()) == json.dumps(again.to_dict())
    for a, b in zip(first.runs, again.runs, strict=True):
        for name in ("jobs", "iterations", "links", "decisions", "spans", "segments", "link_series"):
            assert_frame_equal(getattr(a, name), getattr(b, name))
        for name in ("notes", "server_of_gpu", "adjustments", "wall_s", "events", "exact", "seed", "stack", "version"):
            assert getattr(a, name) == getattr(b, name)


def test_fresh_runs_everything_and_keeps_it(folder: Path, runs: list[tuple[str, int]]) -> None:
    for fresh in (False, True, False):
        with kept(fresh):
            weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    assert len(runs) == 2
    assert Store(folder, 1).size()[0] == 1


def test_without_asking_for_it_nothing_is_kept(folder: Path, runs: list[tuple[str, int]]) -> None:
    for _ in range(2):
        weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    assert len(runs) == 2
    assert not folder.exists()


def test_an_interrupted_comparison_goes_on(
    folder: Path, runs: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third of four runs is interrupted; the next command does that one and the last."""

    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), kept():
        weft.compare(SCENARIO, ["fifo", "srsf"], seeds=2, workers=1, on_progress=interrupt)
    assert len(runs) == 2
    said: list[str] = []
    with kept(say=said.append):
        resumed = weft.compare(SCENARIO, ["fifo", "srsf"], seeds=2, workers=1)
    assert runs == [("fifo", 0), ("srsf", 0), ("fifo", 1), ("srsf", 1)]
    assert said == ["2 of 4 runs were kept from before; --fresh runs them again"]
    straight = weft.compare(SCENARIO, ["fifo", "srsf"], seeds=2, workers=1)
    for a, b in zip(resumed.runs, straight.runs, strict=True):
        assert_frame_equal(a.jobs, b.jobs)


def test_workers_keep_what_they_finish(folder: Path) -> None:
    with kept():
        weft.compare(SCENARIO, ["fifo"], seeds=2, workers=2)
    assert Store(folder, 1).size()[0] == 2


def test_combinations_are_kept_too(folder: Path, runs: list[tuple[str, int]]) -> None:
    tables = []
    for _ in range(2):
        with kept():
            found = cross(SCENARIO, 1, order=["fifo", "srsf"], place=["best-fit"], interleave=["none"], pace=["fair"],
                          workers=1)  # fmt: skip
        tables.append(json.dumps(found.to_dict()))
    assert len(runs) == 2
    assert tables[0] == tables[1]


def test_reproduction_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second time nothing is run, and the JSON is the same to the byte."""
    listed = command(["reproduce", "ada-srsf", "--list", "--json"])
    claim = next(iter(json.loads(capsys.readouterr().out)))
    assert listed == 0
    words = ["reproduce", "ada-srsf", "--claim", claim, "--seeds", "1", "--workers", "1", "--json"]
    assert command(words) == 0
    first = capsys.readouterr()
    assert command(words) == 0
    again = capsys.readouterr()
    assert first.out == again.out
    assert "kept from before" in again.err
    assert "kept from before" not in first.err


@pytest.mark.parametrize(
    "other",
    [
        changed(run={"jitter": 0.1}),
        changed(cluster={"oversubscription": 2.0}),
        changed(workload={"load": 0.8}),
        changed(network={"collective": "tree"}),
    ],
)
def test_one_other_key_is_another_run(other: dict[str, Any]) -> None:
    assert key(SCENARIO) == key(changed())
    assert key(other) != key(SCENARIO)


def test_seed_stack_and_recording_are_told_apart() -> None:
    keys = [key(SCENARIO), key(SCENARIO, seed=1), key(SCENARIO, "srsf"), key(SCENARIO, record=True)]
    assert len(set(keys)) == 4
    assert key(changed(run={"seed": 7}), seed=0) == keys[0]  # the seed that counts is the run's
    assert key({**SCENARIO, "compare": {"stacks": ["fifo"]}}) == keys[0]


def test_a_file_that_the_scenario_names_counts(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s\na,0,1,10\n")
    scenario = {**SCENARIO, "workload": {"source": "trace", "trace": str(trace), "models": ["vgg16"]}}
    before = key(scenario)
    os.utime(trace)
    assert key(dict(scenario)) == before
    trace.write_text("job_id,submit_s,gpus,duration_s\na,0,1,11\n")
    assert key(dict(scenario)) != before


def test_layer_files_that_a_published_table_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs by shape are computed from the authors' layer files where WEFT_TRACES has them; no scenario names those."""
    scenario = changed(network={"cost": "tiers", "table": "dally-by-shape"})
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    without = key(scenario)
    layers = tmp_path / "dally" / "workload" / "vgg11_B256_astra-sim.csv"
    layers.parent.mkdir(parents=True)
    layers.write_text("DATA\n")
    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    assert key(scenario) != without
    assert key(SCENARIO) == key(dict(SCENARIO))


def test_a_policy_from_outside_is_not_kept() -> None:
    class Mine(Fifo):
        """A policy whose sources weft does not know."""

    stack = resolve("fifo")
    stack.planner.order = Mine()  # type: ignore[attr-defined]
    assert identity(Scenario.load(SCENARIO), Layers("fifo"), stack, 0, False) is None


@pytest.fixture
def supplied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution that installs a policy of its own: mine.py in a package, and what pip would write beside it."""
    (tmp_path / "strangers").mkdir()
    (tmp_path / "strangers" / "__init__.py").write_text(
        "from weft.policies.order.fifo import Fifo\nclass Mine(Fifo): ...\n"
    )
    about = tmp_path / "strangers-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[weft.order]\nmine = strangers:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("strangers", None)
    forget_suppliers()


def forget_suppliers() -> None:
    """What is installed, and what its sources are, is looked for again."""
    for known in (kept_runs._suppliers, kept_runs._sources, registry._installed):
        known.cache_clear()


def test_an_installed_policy_is_known_by_its_version_and_its_sources(supplied: Path) -> None:
    def identified() -> str | None:
        forget_suppliers()
        return identity(Scenario.load(SCENARIO), Layers("mine/best-fit/none/fair"), stack, 0, False)

    forget_suppliers()
    stack = resolve("mine/best-fit/none/fair")
    first = identified()
    assert first is not None
    assert identified() == first
    about = supplied / "strangers-1.dist-info" / "METADATA"
    about.write_text(about.read_text().replace("Version: 1", "Version: 2"))
    second = identified()
    with (supplied / "strangers" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    assert len({first, second, identified()}) == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_file_is_as_good_as_none(folder: Path, runs: list[tuple[str, int]], damage: str) -> None:
    with kept():
        first = weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    (file,) = folder.glob("*.run")
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    file.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "other": b"hello"}.get(damage, content))
    with kept():
        again = weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    assert len(runs) == 2
    assert_frame_equal(first.jobs, again.jobs)
    with kept():
        weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    assert len(runs) == 2  # mended


def test_a_file_being_written_is_not_seen(folder: Path) -> None:
    with kept():
        weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    (file,) = folder.glob("*.run")
    part = folder / f".{file.stem}.1.part"
    file.rename(part)
    store = Store(folder, 10**9)
    assert store.load(file.stem) is None
    assert store.size() == (0, 0)
    os.utime(part, (0, 0))
    store.save("k", {"a": 1})  # sweeps up what nobody is writing any more
    assert not part.exists()
    assert store.load("k") == {"a": 1}


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, 10**9)
    for i, name in enumerate("abc"):
        store.save(name, {"x": "y" * 1000})
        os.utime(tmp_path / f"{name}.run", (i, i))
    assert store.load("a") is not None  # used just now
    small = Store(tmp_path, int(2.5 * (tmp_path / "a.run").stat().st_size))
    small.save("d", {"x": "y" * 1000})
    assert sorted(path.stem for path in tmp_path.glob("*.run")) == ["a", "d"]


def test_a_disk_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "results", 10**9)
    store.save("k", {"a": 1})
    assert store.load("k") is None


def test_the_limit_is_read_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_RESULTS_MB", "1.5")
    assert results_limit() == 1_500_000
    monkeypatch.setenv("WEFT_RESULTS_MB", "plenty")
    with pytest.raises(InputError, match="WEFT_RESULTS_MB"):
        results_limit()


def test_the_command_shows_and_clears(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kept():
        weft.compare(SCENARIO, ["fifo"], seeds=1, workers=1)
    assert command(["cache"]) == 0
    assert f"{folder}: 1 results" in capsys.readouterr().out
    assert command(["cache", "--clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == 0
    assert not list(folder.iterdir())
