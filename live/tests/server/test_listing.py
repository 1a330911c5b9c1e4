import csv
from pathlib import Path

from live.tests.jobs import describe
from weft_live.server.ledger import End, Ledger
from weft_live.server.listing import write_trace
from weft_live.server.snapshot import Changes


def test_a_trace_is_not_written_through_a_link(tmp_path: Path) -> None:
    """Where others may write, one of them could have weft, which may be root, overwrite any file."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / ".trace.csv.new").symlink_to(victim)
    write_trace(Ledger(None), tmp_path / "trace.csv")
    assert victim.read_text() == "theirs"
    assert (tmp_path / "trace.csv").read_text().startswith("job_id,")


def test_every_job_that_ran_is_in_the_trace(tmp_path: Path) -> None:
    """Also one that was over before anybody looked; not one that was cancelled while it waited, or that goes on."""
    ledger = Ledger(None)
    for i, name in enumerate(("long", "instant", "stopped", "never", "goes-on")):
        ledger.submit(describe(name, ["true"], gpus=2, iterations=9), float(i))
    ends = [
        End("long", "finished", 9.0, 8.5, 9, ""),
        End("instant", "finished", 2.0, 0.0, 9, ""),
        End("stopped", "cancelled", 7.0, 3.0, 4, ""),
        End("never", "cancelled", 5.0, 0.0, 0, ""),
    ]
    ledger.keep(Changes({"cycle": 1, "table": {}}, {}, [], 0), [], ends)
    assert write_trace(ledger, tmp_path / "trace.csv") == 3
    with open(tmp_path / "trace.csv", encoding="utf-8") as file:
        rows = [
            (r["job_id"], float(r["submit_s"]), float(r["duration_s"]), r["iterations"]) for r in csv.DictReader(file)
        ]
    assert rows == [("long", 0.0, 8.5, "9"), ("instant", 1.0, 0.001, "9"), ("stopped", 2.0, 3.0, "4")]
    ledger.close()
