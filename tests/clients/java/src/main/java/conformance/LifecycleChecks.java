package conformance;

import static conformance.Suite.awaitState;
import static conformance.Suite.check;
import static conformance.Suite.config;
import static conformance.Suite.inSandbox;
import static conformance.Suite.manager;
import static conformance.Suite.refused;
import static conformance.Suite.same;
import static conformance.Suite.sandbox;

import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.SandboxManager;
import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException;
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSandboxInfos;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxState;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Features of the server's API, in the order of the table; the ones inside a sandbox are in their own classes. */
final class LifecycleChecks {
    static void add(Map<String, Suite.Check> checks) {
        checks.put("lifecycle", LifecycleChecks::lifecycle);
        CommandChecks.add(checks);
        checks.put("sessions", () -> {
            throw new Suite.NotOffered("the client has no call for sessions");
        });
        FileChecks.add(checks);
        checks.put("metrics", () -> inSandbox(LifecycleChecks::metrics));
        checks.put("endpoints: direct", () -> endpoints(false));
        checks.put("endpoints: through the proxy", () -> endpoints(true));
        checks.put("pause and resume", () -> inSandbox(LifecycleChecks::pauseAndResume));
        checks.put("renew", () -> inSandbox(LifecycleChecks::renew));
        checks.put("metadata", LifecycleChecks::metadata);
        checks.put("snapshots", () -> {
            throw new Suite.NotOffered("the client has no call for snapshots");
        });
        checks.put("errors", () -> inSandbox(LifecycleChecks::errors));
        checks.put("50 in parallel", LifecycleChecks::parallel);
    }

    private static String lifecycle() throws Exception {
        final String mark = UUID.randomUUID().toString();
        final OffsetDateTime before = OffsetDateTime.now();
        try (SandboxManager manager = manager();
                Sandbox sandbox = sandbox(config())
                        .env("GREETING", "hello from \"java\" ä")
                        .metadata("suite", mark)
                        .timeout(Duration.ofMinutes(7))
                        .build()) {
            try {
                final SandboxInfo info = manager.getSandboxInfo(sandbox.getId());
                same(info.getId(), sandbox.getId(), "id");
                same(info.getStatus().getState(), SandboxState.RUNNING, "state");
                same(info.getImage().getImage(), Suite.IMAGE, "image");
                same(info.getEntrypoint(), List.of("tail", "-f", "/dev/null"), "entrypoint");
                same(info.getMetadata(), Map.of("suite", mark), "metadata");
                same(Duration.between(info.getCreatedAt(), info.getExpiresAt()).toSeconds(), 7 * 60L, "timeout");
                check(!info.getCreatedAt().isBefore(before.minusSeconds(1)), "created before it was asked for");

                final PagedSandboxInfos found =
                        manager.listSandboxInfos(SandboxFilter.builder().metadata(Map.of("suite", mark)).build());
                same(found.getSandboxInfos().size(), 1, "sandboxes with this metadata");
                same(found.getSandboxInfos().get(0).getId(), sandbox.getId(), "the one that was listed");
                same(found.getPagination().getTotalItems(), 1, "total");
                same(manager.listSandboxInfos(SandboxFilter.builder().states(SandboxState.PAUSED)
                        .metadata(Map.of("suite", mark)).build()).getSandboxInfos().size(), 0, "paused sandboxes");

                try (Sandbox other =
                        Sandbox.connector().sandboxId(sandbox.getId()).connectionConfig(config()).connect()) {
                    check(other.isHealthy(), "another client finds it unhealthy");
                    same(CommandChecks.output(other, "printf %s \"$GREETING\""), "hello from \"java\" ä", "environment");
                }
            } finally {
                sandbox.kill();
            }
            final SandboxApiException gone = refused("get after kill", () -> manager.getSandboxInfo(sandbox.getId()));
            same(gone.getStatusCode(), 404, "status of a killed sandbox");
        }
        return "";
    }

    private static String metrics(Sandbox sandbox) {
        final var seen = sandbox.getMetrics();
        check(seen.getCpuCount() >= 1, "cpu count " + seen.getCpuCount());
        check(seen.getCpuUsedPercentage() >= 0, "cpu used " + seen.getCpuUsedPercentage());
        check(seen.getMemoryTotalInMiB() >= 64, "memory " + seen.getMemoryTotalInMiB());
        check(seen.getMemoryUsedInMiB() > 0 && seen.getMemoryUsedInMiB() <= seen.getMemoryTotalInMiB(),
                "memory used " + seen.getMemoryUsedInMiB());
        check(seen.getTimestamp() > 1_700_000_000_000L, "timestamp " + seen.getTimestamp());
        return "the client has no call for the stream of metrics";
    }

    private static String endpoints(boolean proxied) throws Exception {
        final String listener = Files.readString(Path.of(System.getenv("OSB_LISTENER")));
        return inSandbox(sandbox(config(Suite.KEY, proxied)).env("GREETING", "inside"), sandbox -> {
            same(CommandChecks.output(sandbox, "python3 - <<'END'\n" + listener + "END\necho listens"), "listens",
                    "the server inside");
            final String endpoint = sandbox.getEndpoint(8000).getEndpoint();
            same(endpoint.startsWith(Suite.SERVER + "/"), proxied, "the way to " + endpoint + " is the server's proxy");
            same(Suite.fetch("http://" + endpoint + "/a/b?c=d"), "inside /a/b?c=d\n", "answer of the port");
            return "the endpoint has no headers in this client: execd's token is in the path ([server] headerless_clients)";
        });
    }

    private static String pauseAndResume(Sandbox sandbox) throws Exception {
        final String keeper = "kept=in-memory; echo \"$$\" > /tmp/keeper; until [ -e /tmp/ask ]; do sleep 0.05; done; "
                + "printf %s \"$kept\" > /tmp/answer.new; mv /tmp/answer.new /tmp/answer";
        CommandChecks.background(sandbox, keeper);
        CommandChecks.output(sandbox, "until [ -s /tmp/keeper ]; do sleep 0.05; done");
        sandbox.pause();
        awaitState(sandbox, SandboxState.PAUSED);
        same(refused("a second pause", sandbox::pause).getStatusCode(), 409, "status of a second pause");
        sandbox.resume();
        awaitState(sandbox, SandboxState.RUNNING);
        sandbox.files().writeFile("/tmp/ask", "now");
        same(CommandChecks.output(sandbox, "until [ -e /tmp/answer ]; do sleep 0.05; done; cat /tmp/answer"),
                "in-memory", "what a process of before still knows");
        return "the client has no shell sessions: a background process kept its variable";
    }

    private static String renew(Sandbox sandbox) {
        try (SandboxManager manager = manager()) {
            final Runnable[] ways = {
                () -> sandbox.renew(Duration.ofMinutes(30)),
                () -> manager.renewSandbox(sandbox.getId(), Duration.ofMinutes(30)),
            };
            for (final Runnable renew : ways) {
                final OffsetDateTime earliest = OffsetDateTime.now().plusMinutes(30);
                renew.run();
                final OffsetDateTime latest = OffsetDateTime.now().plusMinutes(30);
                final OffsetDateTime deadline = sandbox.getInfo().getExpiresAt();
                // Fractions finer than the server's may be lost.
                check(!deadline.isBefore(earliest.minusNanos(1_000_000)) && !deadline.isAfter(latest),
                        "deadline " + deadline + " is not from " + earliest + " to " + latest);
            }
        }
        return "";
    }

    private static String metadata() throws Exception {
        final String mark = UUID.randomUUID().toString();
        return inSandbox(sandbox(config()).metadata(Map.of("mark", mark, "team", "a")), sandbox -> {
            same(sandbox.getInfo().getMetadata(), Map.of("mark", mark, "team", "a"), "metadata");
            try (SandboxManager manager = manager()) {
                same(count(manager, Map.of("mark", mark, "team", "a")), 1, "sandboxes with both");
                same(count(manager, Map.of("mark", mark, "team", "b")), 0, "sandboxes with one of them");
            }
            return "the client has no call to change metadata: set with the create, listed by";
        });
    }

    private static int count(SandboxManager manager, Map<String, String> metadata) {
        final SandboxFilter filter = SandboxFilter.builder().metadata(metadata).pageSize(10).page(1).build();
        return manager.listSandboxInfos(filter).getSandboxInfos().size();
    }

    private static String errors(Sandbox sandbox) {
        try (SandboxManager manager = manager();
                SandboxManager stranger = SandboxManager.builder()
                        .connectionConfig(config("a-wrong-key", false)).build()) {
            final SandboxApiException wrongKey = refused("a wrong key", () -> stranger.getSandboxInfo(sandbox.getId()));
            same(wrongKey.getStatusCode(), 401, "status of a wrong key");
            same(wrongKey.getError().getCode(), "INVALID_API_KEY", "code of a wrong key");

            final SandboxApiException unknown = refused("an unknown id", () -> manager.getSandboxInfo(Suite.UNKNOWN));
            same(unknown.getStatusCode(), 404, "status of an unknown sandbox");
            check(unknown.getError().getCode().endsWith("::SANDBOX_NOT_FOUND"),
                    "code of an unknown sandbox: " + unknown.getError().getCode());
            same(refused("a kill of an unknown id", () -> manager.killSandbox(Suite.UNKNOWN)).getStatusCode(), 404,
                    "status of a kill of an unknown sandbox");

            final SandboxApiException tooShort =
                    refused("a timeout of 1 s", () -> sandbox(config()).timeout(Duration.ofSeconds(1)).build());
            check(tooShort.getStatusCode() == 400 || tooShort.getStatusCode() == 422,
                    "status of a bad request: " + tooShort.getStatusCode());
            check(tooShort.getError().getMessage().contains("timeout"),
                    "message of a bad request: " + tooShort.getError().getMessage());

            final SandboxApiException missing =
                    refused("a missing file", () -> sandbox.files().readFile("/tmp/there is no such file"));
            same(missing.getStatusCode(), 404, "status of a missing file");
            same(missing.getError().getCode(), "FILE_NOT_FOUND", "code of a missing file");
        }
        try {
            Sandbox.builder().image(" ");
            throw new Suite.Mismatch("a blank image was not refused");
        } catch (InvalidArgumentException refused) {
            return "";
        }
    }

    private static String parallel() throws Exception {
        final int count = Integer.parseInt(System.getenv().getOrDefault("OSB_PARALLEL", "50"));
        final ExecutorService threads = Executors.newFixedThreadPool(count);
        final CountDownLatch running = new CountDownLatch(count);
        try {
            final List<Future<String>> answers = new ArrayList<>();
            for (int i = 0; i < count; ++i) {
                final String number = String.valueOf(i);
                answers.add(threads.submit(() -> {
                    try {
                        return inSandbox(sandbox(config()).env("NUMBER", number), sandbox -> {
                            running.countDown();
                            running.await();
                            return CommandChecks.output(sandbox, "printf %s \"$NUMBER\"");
                        });
                    } catch (Exception failed) {
                        while (running.getCount() > 0) running.countDown(); // the others need not wait for it
                        throw failed;
                    }
                }));
            }
            for (int i = 0; i < count; ++i) same(answers.get(i).get(), String.valueOf(i), "sandbox " + i);
        } finally {
            threads.shutdown();
        }
        return "";
    }

    private LifecycleChecks() {}
}
