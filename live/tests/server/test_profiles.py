import gzip
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live.tests.serving import own_s
from weft.errors import InputError
from weft.testing import toy_cluster
from weft_live.server.profiles import Profiles, Reading


@pytest.fixture
def profiles(tmp_path: Path) -> Iterator[Profiles]:
    """A reader of one folder, with more time than a busy machine needs."""
    (tmp_path / "allowed").mkdir()
    made = Profiles(toy_cluster(), [tmp_path / "allowed"], limit_s=60.0)
    yield made
    made.close()


class Moved:
    """A clock that stands until it is moved."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def hasty(clock: Moved) -> Iterator[Profiles]:
    """A reader, up already, that refuses after a minute by that clock."""
    made = Profiles(toy_cluster(), [], limit_s=60.0, now=clock)
    with pytest.raises(InputError):
        made.wait("resnet50[batch=0]", 2)
    yield made
    made.close()


def stop(profiles: Profiles, *, files: bool) -> None:
    """Readers hang from now on."""
    for reader in profiles._readers:
        if reader.files is files:
            reader.start(0.0)
            assert reader.child is not None
            os.kill(reader.child.pid, signal.SIGSTOP)


def graphs(folder: Path, *names: str) -> list[str]:
    """Small profile files."""
    head = {"format": "weft-profile", "version": 1, "kind": "graph", "name": "mine", "workers": 2}
    files = [folder / f"{name}.json" for name in names]
    for file in files:
        file.write_text(json.dumps({**head, "tasks": [{"name": "a", "type": "compute", "seconds": 0.1}]}))
    return [str(file) for file in files]


def asked(profiles: Profiles, model: str, user: str) -> str:
    """ "known", "reading", or why it is refused."""
    try:
        profiles(model, 2, user)
    except Reading:
        return "reading"
    except InputError as error:
        return str(error)
    return "known"


def test_users_take_turns_and_options_never_wait_for_files(tmp_path: Path, clock: Moved) -> None:
    """Ann's files hang their readers, and many more of hers wait. Others and the zoo do not wait for her: she has one
    reader, and when it is killed it is somebody else's turn."""
    made = Profiles(toy_cluster(), [tmp_path], limit_s=60.0, now=clock)
    anns = graphs(tmp_path, *(f"ann{i}" for i in range(4)))
    bobs, carls = graphs(tmp_path, "bob"), graphs(tmp_path, "carl")
    stop(made, files=True)
    assert [asked(made, file, "ann") for file in anns] == ["reading"] * 4
    assert [reader.key for reader in made._readers] == [(anns[0], 2), None, None], "the others are for other users"
    assert made.wait("resnet50[batch=16]", 2).name == "resnet50[batch=16]"
    assert asked(made, bobs[0], "bob") == "reading"
    assert asked(made, carls[0], "carl") == "reading"
    clock.now_s = 76.0
    while {"known"} != {asked(made, carls[0], "carl"), asked(made, anns[1], "ann")}:
        time.sleep(0.01)
    assert [key[0] for key in made._known if key[0] in (carls[0], anns[1])] == [carls[0], anns[1]]
    assert "takes more than 60 s" in asked(made, anns[0], "ann")
    made.close()


def test_a_user_may_have_so_much_read_in_an_hour(tmp_path: Path, clock: Moved) -> None:
    """Two files that take for ever are two minutes, and that is all. Others are not concerned. It comes back."""
    made = Profiles(toy_cluster(), [tmp_path], limit_s=60.0, now=clock, budget_s=120.0)
    anns, bobs = graphs(tmp_path, "a0", "a1", "a2"), graphs(tmp_path, "bob")
    for number, file in enumerate(anns[:2], 1):
        stop(made, files=True)
        assert asked(made, file, "ann") == "reading"
        clock.now_s = 200.0 * number
        assert "takes more than 60 s" in asked(made, file, "ann")
    assert made._had_s("ann") == pytest.approx(120.0 - 200.0 / 30.0)
    assert asked(made, "resnet50", "ann") == "known"
    made._spent["ann"] = (120.0, clock.now_s)
    assert "has taken 120 s within an hour" in asked(made, anns[2], "ann")
    while asked(made, bobs[0], "bob") != "known":
        time.sleep(0.01)
    clock.now_s += 1800.0
    assert made._had_s("ann") == pytest.approx(60.0)
    while asked(made, anns[2], "ann") != "known":
        time.sleep(0.01)
    made.close()


def test_a_plain_name_is_there_at_once_and_options_are_read_elsewhere(profiles: Profiles) -> None:
    assert profiles("resnet50", 2).name == "resnet50"
    with pytest.raises(Reading):
        profiles("resnet50[batch=16]", 2)  # its reader is not up yet
    assert profiles.wait("resnet50[batch=16]", 2).name == "resnet50[batch=16]"
    assert profiles("resnet50[batch=16]", 2) is profiles("resnet50[batch=16]", 2)


def test_a_model_that_takes_for_ever_is_refused_in_the_end(hasty: Profiles, clock: Moved) -> None:
    """Its child is stopped. Others are read afterwards, and so is that model when it has been mended."""
    model = "resnet50[batch=16]"
    stop(hasty, files=False)
    for clock.now_s in (0.0, 59.0):
        with pytest.raises(Reading):
            hasty(model, 2)
    clock.now_s = 61.0
    for _ in range(2):
        with pytest.raises(InputError, match="takes more than 60 s"):
            hasty(model, 2)
    assert hasty.wait("vgg16[batch=16]", 2).name == "vgg16[batch=16]"
    clock.now_s = 72.0
    assert hasty.wait(model, 2).name == model


@pytest.mark.alone
def test_nobody_waits_for_a_model_that_takes_for_ever() -> None:
    """A billion micro-batches: asking costs nothing while it is read, it is refused in the end, the next is read."""
    hasty, longest, words = Profiles(toy_cluster(), [], limit_s=3.0), 0.0, ""
    with pytest.raises(InputError):
        hasty.wait("resnet50[batch=0]", 2)  # the child is up
    while not words:
        began = own_s()
        try:
            hasty("gpt3[parallel=pipeline,micro_batches=999999999]", 4)
        except Reading:
            longest = max(longest, own_s() - began)
        except InputError as error:
            words = str(error)
        time.sleep(0.01)
    assert "takes more than 3 s" in words or "needs too much memory" in words
    assert longest < 0.1
    assert hasty.wait("vgg16[batch=16]", 2).name == "vgg16[batch=16]"
    hasty.close()


def test_nobody_waits_longer_for_a_model_that_is_refused_at_once(hasty: Profiles) -> None:
    """They took as long as reading may take, each, though the answer was there."""
    began = time.monotonic()
    for batch in (-1, -2, -3):
        with pytest.raises(InputError):
            hasty.wait(f"resnet50[batch={batch}]", 2)
    assert time.monotonic() - began < 60.0  # one of them would take that long


def test_only_files_of_the_named_folders_are_read(profiles: Profiles, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    (tmp_path / "secret.json").write_text("{}")
    (allowed / "link.json").symlink_to(tmp_path / "secret.json")
    os.mkfifo(allowed / "pipe.json")
    for name, words in (
        ("/proc/kmsg", "in no folder that profiles are read from"),
        ("/dev/zero", "in no folder"),
        ("/etc/shadow", "in no folder"),
        (f"{allowed}/link.json", "in no folder"),
        (f"{allowed}/../secret.json", "in no folder"),
        (f"{allowed}/pipe.json", "is no profile file"),
        ("./link.json", "is not an absolute path"),
        (f"{allowed}/none.json", "No such file"),
    ):
        with pytest.raises(InputError, match=words):
            profiles.wait(name, 2)
    nothing = Profiles(toy_cluster(), [], limit_s=60.0)
    with pytest.raises(InputError, match="this server reads none; name a model of the zoo"):
        nothing.wait("/etc/passwd", 2)
    nothing.close()


def test_a_bomb_is_defused(profiles: Profiles, tmp_path: Path) -> None:
    """A gibibyte of blanks in a mebibyte: refused, and this process does not grow."""
    bomb = tmp_path / "allowed" / "bomb.json"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(256):
            file.write(b" " * (1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="it holds more than 64 MiB"):
        profiles.wait(str(bomb), 2)
    large = tmp_path / "allowed" / "large.json"
    large.touch()
    os.truncate(large, 1 << 40)
    with pytest.raises(InputError, match="is no profile file; name a file of at most 16 MiB"):
        profiles.wait(str(large), 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([{"type": "transfer", "bytes": 1.0, "collective": "gossip"}], "collective 'gossip' is unknown"),
        ([{"type": "transfer", "bytes": 1.0, "servers": 10**9}], "1000000000 parameter servers"),
        ([{"type": "transfer", "bytes": 1.0, "demand_bytes_per_s": 1e-300}], "no amount that can be planned"),
        ([{"type": "transfer", "bytes": 1e300}], "no amount that can be planned"),
        ([{"type": "compute", "seconds": 1e308}], "no amount that can be planned"),
        ([{"type": "compute", "seconds": 0.1, "after": list(range(i))} for i in range(400)], "79800 of them"),
    ],
)
def test_a_graph_that_hurts_who_plans_with_it_is_refused(
    tasks: list[dict[str, Any]], words: str, profiles: Profiles, tmp_path: Path
) -> None:
    """Each is well formed, and would end the server, or hold it up, when a policy looks at it."""
    head = {"format": "weft-profile", "version": 1, "kind": "graph", "name": "mine", "workers": 2}
    file = tmp_path / "allowed" / "graph.json"
    file.write_text(json.dumps({**head, "tasks": [{"name": "a", **task} for task in tasks]}))
    with pytest.raises(InputError, match=words):
        profiles.wait(str(file), 2)


def test_text_that_hurts_its_parser_is_refused_in_words(profiles: Profiles, tmp_path: Path) -> None:
    texts = ("[" * 200_000, "{" + '"a":{' * 100_000, json.dumps({"weft": 1e999}), "\0" * 1000, "")
    for number, text in enumerate(texts):
        file = tmp_path / "allowed" / f"{number}.json"
        file.write_text(text)
        with pytest.raises(InputError, match=f"{number}.json"):
            profiles.wait(str(file), 2)
