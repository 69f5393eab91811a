#!/usr/bin/env python3
"""Network policies of native sandboxes: what a policy of 50 rules costs a create, a change, a connection and the host's memory.

Needs root. Starts a sandboxd and a server of its own in a network namespace; a second namespace is the internet.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import report  # noqa: E402

sys.path.insert(0, str(harness.ROOT / "tests" / "privileged" / "attacks"))

CREATES, CHANGES, MANY = 100, 200, 1000
RULES = 50
# Half of the rules are names, half networks.
POLICY = {"defaultAction": "deny",
          "egress": [{"action": "allow", "target": f"n{i}.test"} for i in range(RULES // 2 - 1)]
          + [{"action": "allow", "target": "www.allowed.test"}]
          + [{"action": "allow", "target": f"11.{i}.0.0/24"} for i in range(RULES // 2)]}

# Inside: receives for some seconds from a server that sends; connects as often as it can.
LOAD = """
import socket, struct, sys, time
def resolve(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(5)
        asker.connect(('9.9.9.9', 53))
        wire = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + bytes(1)
        asker.send(struct.pack('!HHHHHH', 7, 0x100, 1, 0, 0, 0) + wire + struct.pack('!HH', 1, 1))
        asker.recv(4096)
resolve('www.allowed.test')
address, seconds = sys.argv[1], float(sys.argv[2])
with socket.create_connection((address, 9000), 10) as connection:
    buffer, total, end = bytearray(1 << 20), 0, time.monotonic() + seconds
    begin = time.monotonic()
    while time.monotonic() < end:
        total += connection.recv_into(buffer)
    rate = total / (time.monotonic() - begin)
count, end = 0, time.monotonic() + seconds
begin = time.monotonic()
while time.monotonic() < end:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        connection.connect((address, 9001))
    count += 1
print(rate, count / (time.monotonic() - begin))
"""

SENDER = """
import socket, threading
sending, taking = socket.create_server(('0.0.0.0', 9000)), socket.create_server(('0.0.0.0', 9001), backlog=1024)
def take():
    while True:
        taking.accept()[0].close()
threading.Thread(target=take, daemon=True).start()
print('listening', flush=True)
block = bytes(1 << 20)
while True:
    connection, _ = sending.accept()
    try:
        while True:
            connection.sendall(block)
    except OSError:
        connection.close()
"""


def p50(samples):
    return statistics.median(samples)


def p99(samples):
    return sorted(samples)[int(len(samples) * 0.99)]


def timed(action):
    begin = time.monotonic()
    action()
    return (time.monotonic() - begin) * 1000


def used_kib():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    fields = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return sum(int(fields[name].split()[0]) * sign
               for name, sign in (("MemTotal", 1), ("MemFree", -1), ("Buffers", -1), ("Cached", -1)))


def resident_kib(pid):
    return next(int(line.split()[1]) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                if line.startswith("VmRSS:"))


class Bench:
    def __init__(self, options, work):
        from policy_walls import Walls
        self.walls = Walls(work)
        self.daemon = self.walls.daemon
        self.number = 0

    def create(self, policy):
        self.number += 1
        fields = {"networkPolicy": POLICY} if policy else {}
        return self.daemon.create(f"s{self.number}", **fields)

    def creates(self, count):
        """Creates take turns; milliseconds by whether they have a policy."""
        samples = {False: [], True: []}
        for i in range(count + 2):
            for policy in (False, True):
                made = []
                took = timed(lambda: made.append(self.create(policy)))
                if i >= 2:
                    samples[policy].append(took)
                made[0].remove()
                time.sleep(0.02)
        return samples

    def changes(self, count):
        """Through the server: from the request to the answer, which comes when the policy is in force and stored."""
        prisoner = self.walls.create(POLICY)
        widening, narrowing = [], []
        for i in range(count // 2):
            rule = {"action": "allow", "target": f"12.{i % 250}.0.0/24"}
            widening.append(timed(lambda: self.walls.policy(prisoner, "PATCH", [rule])))
            narrowing.append(timed(lambda: self.walls.policy(prisoner, "DELETE", [rule["target"]])))
        prisoner.remove()
        return widening, narrowing

    def load(self, policy, seconds):
        from policy_world import ALLOWED
        sandbox = self.create(policy)
        out = sandbox.output(f"python3 - {ALLOWED} {seconds} <<'LOAD'\n{LOAD}\nLOAD")
        sandbox.remove()
        return tuple(map(float, out.split()))

    def held_kib(self):
        """Where policies are kept: sandboxd, its egress process, and tables of the kernel. All the rest of a sandbox is the same
        without a policy, and so much more that its noise would hide them."""
        pids = [self.daemon.pid]
        for task in pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir():
            pids += [int(pid) for pid in (task / "children").read_text().split()
                     if "opensandbox-egr" in pathlib.Path(f"/proc/{pid}/comm").read_text()]
        slab = next(int(line.split()[1]) for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
                    if line.startswith("SUnreclaim:"))
        return slab + sum(map(resident_kib, pids))

    def beside_many(self, count, rounds, seconds):
        """KiB of each of many sandboxes with and without a policy, and (throughput, connections) of one more of their kind."""
        figures = {"late_load": {}, "held": {}}
        for policy in (False, True):
            before, held = used_kib(), self.held_kib()
            made = [self.create(policy) for _ in range(count)]
            figures[policy] = (used_kib() - before) / count
            figures["held"][policy] = (self.held_kib() - held) / count
            figures["late_load"][policy] = [p50(each) for each in zip(*(self.load(policy, seconds) for _ in range(rounds)))]
            if policy:
                figures["late"] = [timed(lambda: made.append(self.create(True))) for _ in range(50)]
            for each in made:
                each.remove()
        return figures


def measure(options, work):
    bench = Bench(options, work)
    sender = subprocess.Popen(["nsenter", "-t", str(bench.walls.internet.pid), "-n", sys.executable, "-c", SENDER],
                              stdout=subprocess.PIPE, text=True)
    try:
        assert sender.stdout.readline() == "listening\n"
        foreign = report.Foreign([bench.daemon.pid, bench.walls.server.process.pid, sender.pid])
        creates = bench.creates(10 if options.quick else CREATES)
        widening, narrowing = bench.changes(20 if options.quick else CHANGES)
        seconds, load = 1 if options.quick else 3, {False: [], True: []}

        def alone():
            for _ in range(options.rounds):
                for policy in (False, True):
                    load[policy].append(bench.load(policy, seconds))

        # Before and after the many, so that a machine that becomes slower or faster meanwhile counts for neither.
        alone()
        memory = bench.beside_many(20 if options.quick else MANY, options.rounds, seconds)
        alone()
        return {"create": {str(key): [p50(each), p99(each)] for key, each in creates.items()},
                "late": p50(memory["late"]), "late_load": {str(key): each for key, each in memory["late_load"].items()},
                "widening": [p50(widening), p99(widening)], "narrowing": [p50(narrowing), p99(narrowing)],
                "bytes": {str(key): p50([each[0] for each in rows]) for key, rows in load.items()},
                "connects": {str(key): p50([each[1] for each in rows]) for key, rows in load.items()},
                "kib": {str(key): memory[key] for key in (False, True)}, "held": memory["held"][True] - memory["held"][False],
                "many": 20 if options.quick else MANY,
                "others": foreign.share()}
    finally:
        sender.kill()
        sender.wait()
        bench.walls.close()


def markdown(data, options):
    quiet = data["others"] <= report.Foreign.LIMIT
    without, with_ = data["create"]["False"], data["create"]["True"]
    more = with_[0] - without[0]
    rows = [["create", f"{without[0]:.2f} / {without[1]:.2f} ms", f"{with_[0]:.2f} / {with_[1]:.2f} ms"],
            [f"create beside {data['many']} others with a policy, p50", "", f"{data['late']:.2f} ms"],
            ["TCP throughput", f"{data['bytes']['False'] / 1e6:,.0f} MB/s", f"{data['bytes']['True'] / 1e6:,.0f} MB/s"],
            ["TCP connections per second", f"{data['connects']['False']:,.0f}", f"{data['connects']['True']:,.0f}"],
            [f"the same beside {data['many']} others of its kind",
             *("{:,.0f} MB/s, {:,.0f}".format(data["late_load"][key][0] / 1e6, data["late_load"][key][1])
               for key in ("False", "True"))],
            ["memory of a sandbox", f"{data['kib']['False']:,.0f} KiB", f"{data['kib']['True']:,.0f} KiB"],
            ["change that allows more, through the server", "", "{:.2f} / {:.2f} ms".format(*data["widening"])],
            ["change that revokes, through the server", "", "{:.2f} / {:.2f} ms".format(*data["narrowing"])]]
    throughput = data["bytes"]["True"] / data["bytes"]["False"]
    connects = data["connects"]["True"] / data["connects"]["False"]
    kib = data["held"]
    worst = max(data["widening"][0], data["narrowing"][0])
    targets = [[f"create with {RULES} rules: at most 0.6 ms more", f"{more:.2f} ms", report.verdict(more <= 0.6, quiet)],
               ["a change: p50 at most 2 ms", f"{worst:.2f} ms", report.verdict(worst <= 2, quiet)],
               ["TCP throughput at least 95%", f"{throughput:.0%}", report.verdict(throughput >= 0.95, quiet)],
               ["connection rate at least 95%", f"{connects:.0%}", report.verdict(connects >= 0.95, quiet)],
               [f"create beside {data['many']} others: at most 1.2x one alone", f"{data['late'] / with_[0]:.2f}",
                report.verdict(data["late"] <= 1.2 * with_[0], quiet)],
               [f"TCP throughput beside {data['many']} others: at least 95% of one alone",
                f"{data['late_load']['True'][0] / data['bytes']['True']:.0%}",
                report.verdict(data["late_load"]["True"][0] >= 0.95 * data["bytes"]["True"], quiet)],
               [f"connection rate beside {data['many']} others: at least 95% of one alone",
                f"{data['late_load']['True'][1] / data['connects']['True']:.0%}",
                report.verdict(data["late_load"]["True"][1] >= 0.95 * data["connects"]["True"], quiet)],
               [f"at most 100 KiB of memory each, of {data['many']}", f"{kib:.0f} KiB", report.verdict(kib <= 100, quiet)]]
    return "\n\n".join([
        f"A policy of {RULES} rules, half names and half networks; p50 / p99; creates with and without take turns. Other "
        f"programs took {data['others']:.0%} of the machine meanwhile.",
        report.table(["", "without a policy", "with a policy"], rows), report.table(["target", "measured", ""], targets)])


if __name__ == "__main__":
    harness.main(harness.Part("policies", "Network policies of native sandboxes", __doc__, measure, markdown, rounds=5))
