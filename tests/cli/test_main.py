import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from weft import __version__
from weft.cli import main as cli
from weft.cli.common import print_json
from weft.cli.main import app, run

Capture = pytest.CaptureFixture[str]
GROUPS = ["trace", "models", "fit", "testbed"]
COMMANDS = [name for name in typer.main.get_command(app()).commands if name not in GROUPS]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: Capture) -> None:
    assert run([command, "--help"]) == 0
    assert f"Example: weft {command}" in capsys.readouterr().out


@pytest.mark.parametrize("group", GROUPS)
def test_every_sub_command_has_help_with_an_example(group: str, capsys: Capture) -> None:
    commands = typer.main.get_command(app()).commands[group].commands  # type: ignore[attr-defined]
    assert commands
    for name in commands:
        assert run([group, name, "--help"]) == 0
        assert f"Example: weft {group} {name}" in capsys.readouterr().out


def test_version(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"weft {__version__}\n"


def test_without_arguments_it_shows_its_help(capsys: Capture) -> None:
    assert run([]) == 2
    assert "Usage: weft" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["simulat"], "No such command 'simulat'. Did you mean 'simulate'? See: weft --help"),
        (["simulate"], "Missing argument 'SCENARIO.toml'; see: weft simulate --help"),
        (["replay", "a.json", "b.json"], "Got unexpected extra argument"),
        (["stacks", "--jsn"], "No such option: --jsn (Possible options: --json); see: weft stacks --help"),
    ],
)
def test_wrong_usage_is_one_line(args: list[str], line: str, capsys: Capture) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {line}")
    assert err.count("\n") == 1


def test_an_unexpected_error_is_one_line_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("weft.stacks.names", broken)
    assert run(["stacks"]) == 1
    line = "error: RuntimeError: two lines; this is a bug in weft; WEFT_DEBUG=1 shows the traceback to report\n"
    assert capsys.readouterr() == ("", line)
    monkeypatch.setenv("WEFT_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run(["stacks"])


def test_an_interrupt_is_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.stacks.names", interrupted)
    assert run(["stacks"]) == 130
    assert capsys.readouterr() == ("", "error: interrupted\n")


@pytest.mark.parametrize(("more", "how"), [([], "the same command"), (["--fresh"], "the same command without --fresh")])
def test_who_is_interrupted_learns_how_to_go_on(
    more: list[str], how: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.cli.compare._stacks", interrupted)
    assert run(["compare", "demo", *more]) == 130
    assert capsys.readouterr().err == f"error: interrupted; {how} continues from the finished runs\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    """weft ... | head: the pipe is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from weft.cli.main import main; main()", "init", "-"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141


def test_what_cannot_be_written_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "no" / "such" / "folder.toml"
    assert run(["init", str(target)]) == 2
    line = f"error: {target}: No such file or directory; check the path and its permissions\n"
    assert capsys.readouterr() == ("", line)


def test_json_has_null_for_what_is_undefined(capsys: Capture) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": None}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": {"d": None}}


def test_init_writes_a_scenario_and_never_overwrites_one(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.toml"
    assert run(["init", str(path)]) == 0
    assert capsys.readouterr() == ("", f"wrote {path}; run it with: weft simulate {path}\n")
    assert run(["topology", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == 96
    assert run(["init", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: exists already; choose another name or add --force\n"
    assert run(["init", str(path), "--force"]) == 0


def test_stacks_lists_names_and_layers(capsys: Capture) -> None:
    assert run(["stacks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["stacks"]["fifo"]["order"] == "fifo"
    assert {"first-fit", "dealt:PLACE", "even:PLACE"} <= set(listed["layers"]["place"])
    assert run(["stacks"]) == 0
    printed = capsys.readouterr().out
    assert all(words in printed for words in ("who goes next", "dealt:PLACE", "even:PLACE"))


def test_the_script_calls_main(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "argv", ["weft", "--version"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("weft ")


def test_an_old_name_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 1\n[workload]\nsource = "jobs"\n'
        'job = [{model = "resnet50", iterations = 2}]\n'
    )
    monkeypatch.setattr(sys, "argv", ["weft", "simulate", str(path), "--place", "ff", "--json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert said == ["warning: place ff is now first-fit:shared; the old name will go with weft 0.3"]


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path, capsys: Capture) -> None:
    phase = {"compute_s": 0.1, "bytes": 1e6, "flows": {"l[red]": 1}}
    jobs = {"links": {"l[red]": {"gbps": 1.0}}, "jobs": [{"id": "[/a]", "iterations": 2, "phases": [phase]}]}
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    assert run(["replay", str(tmp_path / "jobs.json")]) == 0
    shown = capsys.readouterr().out
    assert "[/a]" in shown
    assert "l[red]" in shown


@pytest.mark.parametrize("width", ["80", "120", "200"])
def test_help_lists_every_command_in_a_group_with_a_whole_sentence(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert "..." not in out.replace("[ARGS]...", "")
    groups = dict(part.split(":\n", 1) for part in out.split("\n\n") if ":\n" in part)
    listed = [line.split()[0] for title in groups for line in groups[title].splitlines() if line[2:3].strip()]
    assert set(cli._COMMANDS) <= set(listed)
    assert "Start here" in groups
    assert groups["Start here"].split()[0] == "init"
    assert "Further commands" not in groups


def test_init_writes_any_scenario_that_comes_with_weft(tmp_path: Path, capsys: Capture) -> None:
    from weft.scenario.shipped import scenario_path

    path = tmp_path / "s.toml"
    assert run(["init", str(path), "--template", "cassini"]) == 0
    assert path.read_text() == scenario_path("cassini").read_text()
    assert run(["init", "-", "--template", "demo"]) == 0
    assert capsys.readouterr().out == scenario_path("demo").read_text()
    assert run(["init", "-", "--template", "casini"]) == 2
    assert "cassini" in capsys.readouterr().err


def test_a_load_and_a_utilisation_say_what_they_are(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "s.toml"
    assert run(["init", str(path)]) == 0
    assert "if each ran alone" in path.read_text().split("load = 0.9")[1].splitlines()[0]
    path.write_text(path.read_text().replace("jobs = 120", "jobs = 4"))
    capsys.readouterr()
    assert run(["simulate", str(path)]) == 0
    assert "of all GPU time" in capsys.readouterr().out
