import pytest

from weft.errors import InputError
from weft.model import Compute, Profile, Transfer
from weft.network.estimates import run_alone
from weft.workload import zoo

NIC_50 = 50e9 / 8


def test_vgg16s_circle_is_255_ms_with_141_ms_down() -> None:
    """CASSINI section 3, Figure 3, for any number of workers; the Down arc spans 200 degrees."""
    for workers in (2, 4, 12):
        alone = run_alone(zoo.profile("vgg16@cassini", workers), NIC_50)
        assert alone.iteration_s == pytest.approx(0.255)
        (up,) = alone.up_phases()
        assert up.start_s == pytest.approx(0.141)
        assert up.bytes_per_s == pytest.approx(45e9 / 8)
        assert 360 * up.start_s / alone.iteration_s == pytest.approx(200, abs=2)


@pytest.mark.parametrize(("model", "gpu"), [("gpt3-cassini", "A100"), ("gpt3", "A100"), ("gpt3-cassini", "V100")])
def test_gpt3_hybrid_has_six_up_and_down_phases(model: str, gpu: str) -> None:
    """CASSINI Figure 1(d): 8 servers, 2 x tensor, 2 x pipeline, 2 x data; the last phase ends in the all-reduce."""
    alone = run_alone(zoo.profile(model, 8, gpu=gpu), NIC_50)
    ups = alone.up_phases(0)
    assert len(ups) == 6
    lengths = [u.end_s - u.start_s for u in ups]
    assert max(lengths) == lengths[-1]
    assert ups[3].start_s - ups[2].end_s > ups[1].start_s - ups[0].end_s  # the pipeline's bubble


def test_gpt2_pipeline_has_three_small_peaks_and_then_the_embedding() -> None:
    """CASSINI Figure 1(b): GPT-2 on two servers, three micro-batches, then a heavy all-reduce of the embedding."""
    alone = run_alone(zoo.profile("gpt2-a", 2, gpu="A100"), NIC_50)
    ups = alone.up_phases(0)
    assert len(ups) == 4
    sent = [(u.end_s - u.start_s) * u.bytes_per_s for u in ups]
    assert sent[0] == pytest.approx(sent[1]) == pytest.approx(sent[2])
    assert sent[3] == pytest.approx(4 * 50257 * 1536)
    assert sent[3] > 5 * sent[0]


def test_gpt1_sends_once_after_its_backward_pass() -> None:
    """CASSINI Figure 1(a): data parallelism; nothing in the forward pass, then one all-reduce."""
    alone = run_alone(zoo.profile("gpt1", 4, gpu="A100"), NIC_50)
    (up,) = alone.up_phases()
    assert up.start_s > 0.5 * (alone.iteration_s - (up.end_s - up.start_s))  # the forward pass is less than half
    assert up.end_s > 0.95 * alone.iteration_s  # the optimizer is left


def test_transfers_of_one_job_share_a_nic() -> None:
    """Worker 0 sends 10 bytes to 1 and 30 to 2 at 10 bytes/s: 5 each until 2 s, then all of it: 4 s."""
    tasks = (
        Compute("c", 0.0),
        Transfer("short", 10.0, (0,), (0, 1), "point-to-point"),
        Transfer("long", 30.0, (0,), (0, 2), "point-to-point"),
    )
    alone = run_alone(Profile("p", tasks, 3), 10.0)
    assert alone.played.end_s == pytest.approx([0.0, 2.0, 4.0])
    assert alone.sent_bytes(0) == pytest.approx(40.0)
    assert len(alone.up_phases(0)) == 1


def test_a_capped_transfer_leaves_the_rest_to_others() -> None:
    """Of 10 bytes/s the capped one takes 2, the other 8."""
    tasks = (
        Transfer("capped", 8.0, (), (0, 1), "point-to-point", 2.0),
        Transfer("free", 32.0, (), (0, 2), "point-to-point"),
    )
    alone = run_alone(Profile("p", tasks, 3), 10.0)
    assert alone.played.end_s == pytest.approx([4.0, 4.0])


def test_a_transfer_among_one_worker_takes_no_time() -> None:
    tasks = (Compute("c", 1.0), Transfer("t", 100.0, (0,), (0,)), Compute("d", 1.0, (1,)))
    assert run_alone(Profile("p", tasks, 1), 1.0).iteration_s == pytest.approx(2.0)


def test_a_nic_without_speed_is_refused() -> None:
    with pytest.raises(InputError, match="NIC"):
        run_alone(Profile("p", (Compute("c", 1.0),), 1), 0.0)
