"""What an agent says of a job."""


def report(
    job: str, talking: bool, left: float = 1e6, volume: float = 1e6, sent: float = 0.0, total: float = 0.0,
) -> dict[str, object]:  # fmt: skip
    """A report of a job whose iterations take half a second, 0.2 s of which it sends."""
    return {
        "job": job, "event": "", "talking": talking, "sent": sent, "left": left, "volume": volume, "period_s": 0.5,
        "phase_s": 0.2, "phases": 5, "total": total, "rdma": False,
    }  # fmt: skip
