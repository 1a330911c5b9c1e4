from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from weft_live.slurm.notes import Aside, Telling, plain
from weft_live.slurm.records import Record

HELD = Record("17", "17", "PENDING", False, True)
WORDS = {"17": "waits: wants 8 GPUs"}
SAID = "weft: waits: wants 8 GPUs"


def test_words_are_sent_when_slurm_shows_others() -> None:
    telling = Telling()
    assert telling.due(WORDS, {"17": HELD}, 5.0) == [Aside("17", f'update JobId=17 AdminComment="{SAID}"')]
    other = {"17": "no such model"}
    assert telling.look({}, str, other, {"17": HELD}, 5.5) == [], "not so soon"
    assert telling.look({}, str, other, {"17": HELD}, 6.0) == [
        Aside("17", 'update JobId=17 AdminComment="weft: stays held: no such model"')
    ]
    assert telling.due(WORDS, {"17": replace(HELD, admin_comment=f'"{SAID}"')}, 6.0) == []
    noted = replace(HELD, admin_comment="weft:job=17,attempt=1")
    assert telling.due({"17": "waits: a licence"}, {"17": noted}, 7.0) == [
        Aside("17", 'update JobId=17 ReqNodeList= AdminComment="weft: waits: a licence"')
    ], "it may have other nodes than those of its last start"


def test_nobody_is_told_the_same_again_and_again() -> None:
    """Slurm may keep the words otherwise than they were sent."""
    telling = Telling()
    assert len(telling.due(WORDS, {"17": HELD}, 5.0)) == 1
    assert telling.due(WORDS, {"17": HELD}, 10.0) == []
    assert len(telling.due(WORDS, {"17": HELD}, 70.0)) == 1


def test_jobs_that_run_or_are_part_of_an_array_are_left_alone() -> None:
    for other in (
        replace(HELD, state="RUNNING"), replace(HELD, held=False), replace(HELD, apart=False),
        replace(HELD, completing=True),
    ):  # fmt: skip
        assert Telling().due(WORDS, {"17": other}, 5.0) == []
    assert Telling().due(WORDS, {}, 5.0) == []


def test_many_are_told_one_batch_after_the_other() -> None:
    telling = Telling()
    wanted = {str(n): "waits: x" for n in range(50)}
    records = {key: replace(HELD, key=key) for key in wanted}
    batches = [telling.due(wanted, records, 5.0 + n) for n in range(4)]
    assert [len(batch) for batch in batches] == [20, 20, 10, 0]
    assert {why.key for batch in batches for why in batch} == set(wanted)


@given(st.text(max_size=300))
def test_words_stay_one_argument_of_one_line(words: str) -> None:
    text = plain(words)
    assert len(text) <= 200
    assert text.isascii()
    assert text.isprintable()
    assert not set('"\\') & set(text)
