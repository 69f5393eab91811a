"""Five hundred sandboxes come and go: the host is afterwards what it was before. `make soak` does ten thousand."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "soak"))

import sandboxes  # noqa: E402

# After so few the allocator's own ups and downs are as large as the long run's limit.
MAX_GROWTH_KIB = 4096


def test_five_hundred_sandboxes_leave_nothing(make_daemon, capsys):
    daemon = make_daemon(settings={"network": {"ready_slots": sandboxes.READY_SLOTS}, "daemon": {"log_level": "warn"}})
    figures = sandboxes.run(daemon, 500, 4, MAX_GROWTH_KIB)
    with capsys.disabled():
        print(f"\n{figures}")
