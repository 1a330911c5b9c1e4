from pathlib import Path

import pytest

from tests.advise.logs import small
from weft.advise import Flags
from weft.advise.jobs import read_jobs
from weft.advise.lengths import elsewhere
from weft.advise.site import ANY, change_of_size, site_of, what_if
from weft.cli.main import run
from weft.errors import InputError, WeftError
from weft.scenario.build import build_cluster
from weft.workload import zoo


def test_a_site_from_flags_lists_what_it_assumes(tmp_path: Path) -> None:
    site = site_of(small(tmp_path), None, Flags(gpus=16, gpus_per_server=4), [])
    assert site.n_gpus == 16
    assert list(site.guesses) == ["little communication", "some communication", "much communication"]
    assert site.assumed == (
        "servers_per_rack = 4",
        "gpu = V100",
        "gpu_memory_gb = 32",
        "nic_gbps = 25",
        "oversubscription = 4",
        "restart_s = 30",
    )
    assert site.middle.run.restart_s == 30.0
    guessed = site_of(small(tmp_path), None, Flags(), [])
    assert guessed.assumed[0].startswith("gpus = 16 (for a load of 0.75")
    assert guessed.n_gpus == 16
    even = site_of(small(tmp_path), None, Flags(gpus=192, servers_per_rack=16), [])
    assert even.n_gpus == 192
    assert even.assumed[0] == "servers_per_rack = 12 (16 at most, in racks of like size)"
    assert site_of(small(tmp_path), None, Flags(gpus=4), []).n_gpus == 4
    with pytest.raises(InputError, match="--gpus 4: a server alone has 8"):
        site_of(small(tmp_path), None, Flags(gpus=4, gpus_per_server=8), [])
    with pytest.raises(WeftError, match="H900"):
        site_of(small(tmp_path), None, Flags(gpu="H900"), [])
    whole = site_of(small(tmp_path), None, Flags(gpus_per_server=3, servers_per_rack=4), [])
    assert whole.assumed[0].startswith(f"gpus = {whole.n_gpus} ")  # whole racks
    assert list(site_of(small(tmp_path), None, Flags(), ["vgg16"]).guesses) == ["as given"]


def test_a_site_has_exactly_the_gpus_that_were_asked_for(tmp_path: Path) -> None:
    """Where they do not fill racks of one size, the last rack has fewer servers, or the last server fewer GPUs; where
    they do, no group is written."""
    log = small(tmp_path)
    for gpus, servers, last in ((704, 88, 8), (1064, 133, 8), (1088, 136, 8), (1061, 133, 5), (50, 7, 2), (9, 2, 1)):
        site = site_of(log, None, Flags(gpus=gpus), [])
        cluster = build_cluster(site.middle)
        assert (site.n_gpus, cluster.n_gpus, len(cluster.servers)) == (gpus, gpus, servers)
        assert len(cluster.servers[-1].gpus) == last
        assert max(cluster.gpus_per_rack) == min(32, gpus)
        assert (site.middle.cluster.group is None) == (gpus in (704, 1088))
        assert not any(words.startswith("gpus = ") for words in site.assumed)
    uneven = site_of(log, None, Flags(gpus=1061), [])
    assert uneven.assumed[2:4] == ("the last rack has 1 of 4 servers", "the last server has 5 of 8 GPUs")


def test_unequal_servers_change_by_servers_of_the_largest_group(tmp_path: Path) -> None:
    log = small(tmp_path)
    site = site_of(log, None, Flags(gpus=1061), [])
    sizes = {"gpus=+25%": 1325, "gpus=+1": 1069, "gpus=-1": 1053, "gpus=1061": 1061}
    assert {text: what_if(site, log, text).n_gpus for text in sizes} == sizes
    assert change_of_size(site, what_if(site, log, "gpus=+8")) == "1 more server: 1,069 GPUs"
    for text, line in (
        ("racks=+1", r"not all alike here; ask for gpus=\+N"),
        ("gpus=many", "give a number of GPUs"),
    ):
        with pytest.raises(InputError, match=line):
            what_if(site, log, text)
    with pytest.raises(InputError, match="the largest group has one server"):
        what_if(few := site_of(log, None, Flags(gpus=9), []), log, "gpus=-1")
    assert few.n_gpus == 9


def test_lengths_elsewhere_follow_the_gpus_that_are_there(tmp_path: Path) -> None:
    """A preset names its GPU; where each group names its own, nothing would change but the lengths."""
    log, toml = small(tmp_path), tmp_path / "site.toml"
    toml.write_text('[cluster]\ntopology = "single-switch"\nservers = 3\npreset = "dgx-h100"\n')
    site = site_of(log, toml, Flags(), ["resnet50"])
    assert what_if(site, log, "gpu=H100").faster == {"as given": {ANY: 1.0}}
    assert site_of(log, toml, Flags(gpu="A100"), []).middle.cluster.gpu_memory_gb == zoo.find_gpu("A100").memory_gb
    toml.write_text('[cluster]\ntopology = "single-switch"\n' + '[[cluster.group]]\ncount = 2\npreset = "dgx-h100"\n')
    with pytest.raises(InputError, match="groups of servers name their own GPUs"):
        what_if(site_of(log, toml, Flags(), ["resnet50"]), log, "gpu=B200")


def test_a_site_from_a_scenario_or_slurms_topology(tmp_path: Path) -> None:
    scenario = tmp_path / "site.toml"
    scenario.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 3\ngpus_per_server = 8\n[network]\nsharing = "ideal"\n'
        "[run]\nrestart_s = 5\n"
    )
    site = site_of(small(tmp_path), scenario, Flags(), [])
    assert (site.n_gpus, site.assumed, site.middle.network.sharing) == (24, (), "ideal")
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n")
    slurms = site_of(small(tmp_path), conf, Flags(gpus_per_server=4), [])
    assert slurms.n_gpus == 32
    assert {"gpu = V100", "oversubscription = 4"} <= set(slurms.assumed)  # as --help says
    with pytest.raises(InputError, match=r"--servers-per-rack: .*topology.conf says which servers share a switch"):
        site_of(small(tmp_path), conf, Flags(servers_per_rack=2), [])
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(InputError, match=r"\[cluster\] is missing"):
        site_of(small(tmp_path), tmp_path / "empty.toml", Flags(), [])


def test_a_cluster_that_has_its_size_refuses_another_and_its_models_are_said(tmp_path: Path) -> None:
    toml = tmp_path / "mine.toml"
    assert run(["init", str(toml)]) == 0
    with pytest.raises(InputError, match=r"--gpus: .*mine.toml says how many GPUs there are; .*--what-if gpus=64"):
        site_of(small(tmp_path), toml, Flags(gpus=64), [])
    site = site_of(small(tmp_path), toml, Flags(), [])
    assert any(words.startswith("models = ") and "mine.toml" in words for words in site.assumed)
    assert not site.size_guessed
    assert site_of(small(tmp_path), None, Flags(), []).size_guessed


def test_what_if_changes_one_thing(tmp_path: Path) -> None:
    log = small(tmp_path)
    site = site_of(log, None, Flags(gpus=64), [])
    assert what_if(site, log, "gpus=+50%").n_gpus == 96
    assert [what_if(site, log, f"gpus={text}").n_gpus for text in ("128", "+64", "-32", "200%")] == [128, 128, 32, 128]
    few = site_of(log, None, Flags(gpus=16), [])
    assert [what_if(few, log, f"gpus={text}").n_gpus for text in ("+25%", "-10%", "16")] == [24, 8, 16]
    assert what_if(site, log, "racks.oversubscription=1").middle.cluster.oversubscription == 1
    assert what_if(site, log, "oversubscription=+1").middle.cluster.oversubscription == 5
    assert what_if(site, log, "racks=+1").n_gpus == 96
    for text, line in (
        ("gpus=many", "give a number of GPUs"),
        ("gpus=-99.9%", "that leaves some"),
        ("gpus=inf", "give a number of GPUs"),
        ("gpus=nan", "give a number of GPUs"),
        ("order=srsf", "--stack tries other stacks"),
        ("trace=other.csv", "it changes the cluster alone"),
        ("oversubscription=1,2", "give one value"),
        ("foo=3", "--what-if foo is not a known key"),
        ("foo", "--what-if foo: write KEY=VALUE$"),
        ("gpu=Foo", "gpu 'Foo' is not known to the zoo; .*H100"),
    ):
        with pytest.raises(InputError, match=line):
            what_if(site, log, text)


def test_other_gpus_change_the_lengths_of_the_log_as_models_compute_there(tmp_path: Path) -> None:
    """ResNet-50's own ratio, not 1: the log's lengths are those on today's GPUs."""
    log = small(tmp_path)
    site = site_of(log, None, Flags(gpus=64, gpu="A100"), ["resnet50"])
    assert site.middle.cluster.gpu_memory_gb == zoo.find_gpu("A100").memory_gb
    assert site.faster == {}
    other = what_if(site, log, "gpu=V100")
    slow, fast = (zoo.work_of("resnet50", gpu=gpu) for gpu in ("V100", "A100"))
    ratio = (slow.forward_s + slow.backward_s) / (fast.forward_s + fast.backward_s)
    assert other.faster == {"as given": {ANY: pytest.approx(ratio)}}
    assert ratio > 1.2
    longer = elsewhere(log.frame, other.faster["as given"])
    assert longer["duration_s"].to_list() == pytest.approx([ratio * s for s in log.frame["duration_s"]])
    assert other.middle.cluster.gpu_memory_gb == zoo.find_gpu("V100").memory_gb
    assert what_if(site, log, "gpu=A100").faster == {"as given": {ANY: 1.0}}


def test_what_a_change_of_size_came_to_is_said(tmp_path: Path) -> None:
    """+25 % of 64 GPUs would be half a rack."""
    log = small(tmp_path)
    site = site_of(log, None, Flags(gpus=64), [])
    said = {
        "gpus=+25%": "1 more server in each rack: 80 GPUs",
        "gpus=+100%": "2 more racks: 128 GPUs",
        "gpus=32": "1 fewer rack: 32 GPUs",
        "gpus_per_server=4": "32 GPUs",
        "oversubscription=1": "",
    }
    assert {text: change_of_size(site, what_if(site, log, text)) for text in said} == said


def test_how_crowded_the_cluster_would_be_if_all_started_at_once(tmp_path: Path) -> None:
    """4 GPUs for all of 1,000 s, 8 more for the second half, 16 more for the last 5 s: more than 8 are held for half of
    the time up to the last submission, more than 12 for 0.5 %."""
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,4,1000\nb,500,8,900\nc,995,16,10\nd,1000,1,10\n")
    log = read_jobs(path, {})
    assert [log.crowded(n) for n in (8, 12, 3)] == [(0.5, 12), (0.005, 12), (1.0, 12)]
    assert log.crowded(28) == (0.0, 12)
