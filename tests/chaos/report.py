"""Counts the clients' notes and makes the summary."""

import collections
import json
import re

from known import NOTHING

PROMISE_WIDTH = 10


class Tally:
    """Reads journals as they grow."""

    def __init__(self, journals):
        self._at = dict.fromkeys(journals, 0)
        self._counts = collections.defaultdict(collections.Counter)
        self._seconds = collections.defaultdict(list)
        self.broken = []
        self.gaps = []  # {"gap": sandbox, "from", "to"}

    def read(self):
        for path, at in self._at.items():
            if not path.exists():
                continue
            with open(path, "rb") as file:
                file.seek(at)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    at += len(line)
                    self._note(json.loads(line))
            self._at[path] = at

    def _note(self, line):
        if line.get("outcome") == NOTHING:
            return
        if "op" in line:
            self._counts[line["op"]][line["outcome"]] += 1
            if line["outcome"] == "done":
                self._seconds[line["op"]].append(line["s"])
        elif "broken" in line:
            self.broken.append((line["broken"], line["text"]))
        elif "gap" in line:
            self.gaps.append(line)

    def line(self):
        total = sum(sum(outcomes.values()) for outcomes in self._counts.values())
        done = sum(outcomes["done"] for outcomes in self._counts.values())
        return f"{total} operations, {total - done} not done, {len(self.broken)} promises broken"

    def operations(self):
        out = {}
        for name, outcomes in sorted(self._counts.items()):
            times = sorted(self._seconds[name])
            out[name] = {"done": outcomes["done"],
                         "p50 ms": round(1000 * times[len(times) // 2], 1) if times else None,
                         "p99 ms": round(1000 * times[len(times) * 99 // 100], 1) if times else None,
                         "errors": {kind: n for kind, n in outcomes.most_common() if kind != "done"}}
        return out


def summary(result):
    from oracle import PROMISES

    lines = ["", f"{'operation':18} {'done':>7} {'p50 ms':>8} {'p99 ms':>9}  errors"]
    for name, row in result["operations"].items():
        errors = ", ".join(f"{n} {kind}" for kind, n in row["errors"].items())
        lines.append(f"{name:18} {row['done']:7} {row['p50 ms'] or '-':>8} {row['p99 ms'] or '-':>9}  {errors}")
    lines += ["", f"{'fault':18} {'times':>7} {'ready again after s (median, longest)':>40}"]
    by_kind = collections.defaultdict(list)
    for fault in result["faults"]:
        by_kind[fault["fault"]].append(fault)
    for name, faults in sorted(by_kind.items()):
        times = sorted(fault["s"] for fault in faults if "s" in fault)
        shown = f"{times[len(times) // 2]:.2f}, {times[-1]:.2f}" if times else ""
        lines.append(f"{name:18} {len(faults):7} {shown:>40}")
    lines += ["", *(f"{what:32} {figure:>9}" for what, figure in result["figures"].items())]
    reasons = collections.Counter(re.sub(r"/\S+", "..", reason) for reason in result["ended"])
    for reason, count in reasons.most_common(10):
        lines.append(f"  ended {count} times: {reason[:160]}")
    counts = collections.Counter(each["promise"] for each in result["broken"])
    lines.append("")
    for promise, text in PROMISES.items():
        verdict = f"BROKEN {counts[promise]} times" if counts[promise] else "kept"
        lines.append(f"{promise:{PROMISE_WIDTH}} {verdict:18} {text}")
    for each in result["broken"][:20]:
        lines.append(f"  {each['promise']}: {each['text'][:600]}")
    lines += ["", f"{'all promises kept' if not result['broken'] else 'PROMISES WERE BROKEN'}: "
                  f"seed {result['seed']}, {result['clients']} clients, {result['seconds']} s in all"]
    return "\n".join(lines)
