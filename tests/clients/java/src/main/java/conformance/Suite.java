package conformance;

import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.SandboxManager;
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig;
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.function.BooleanSupplier;

/** Shared by the checks: the server under test, a sandbox for one check, and comparisons that say what they saw. */
final class Suite {
    static final String SERVER = System.getenv("OSB_SERVER").replaceFirst("^http://", "");
    static final String KEY = System.getenv("OSB_API_KEY");
    static final String IMAGE = System.getenv("OSB_IMAGE");
    static final boolean PROXIED = "1".equals(System.getenv("OSB_PROXY"));
    static final UUID UNKNOWN = UUID.fromString("00000000-0000-4000-8000-000000000000");
    // Long enough for a busy machine; nothing waits for it in vain.
    static final Duration PATIENCE = Duration.ofSeconds(120);

    /** A check returns a remark about what works, or "". */
    interface Check {
        String run() throws Exception;
    }

    interface Use {
        String in(Sandbox sandbox) throws Exception;
    }

    static final class NotOffered extends Exception {
        private static final long serialVersionUID = 1;

        NotOffered(String what) {
            super(what);
        }
    }

    static final class Mismatch extends RuntimeException {
        private static final long serialVersionUID = 1;

        Mismatch(String what) {
            super(what);
        }
    }

    static ConnectionConfig config() {
        return config(KEY, PROXIED);
    }

    /**
     * The client has no setting for the server's proxy, but it keeps a query that is part of the server's address and
     * sends it with every request to the lifecycle API.
     */
    static ConnectionConfig config(String key, boolean proxied) {
        return ConnectionConfig.builder()
                .domain(SERVER + (proxied ? "?use_server_proxy=true" : ""))
                .apiKey(key)
                .requestTimeout(PATIENCE)
                .build();
    }

    static Sandbox.Builder sandbox(ConnectionConfig config) {
        return Sandbox.builder()
                .image(IMAGE)
                .timeout(Duration.ofMinutes(10))
                .readyTimeout(PATIENCE)
                .connectionConfig(config);
    }

    /** Runs one check in a sandbox of its own. */
    static String inSandbox(Use use) throws Exception {
        return inSandbox(sandbox(config()), use);
    }

    static String inSandbox(Sandbox.Builder builder, Use use) throws Exception {
        try (Sandbox sandbox = builder.build()) {
            try {
                return use.in(sandbox);
            } finally {
                sandbox.kill();
            }
        }
    }

    static SandboxManager manager() {
        return SandboxManager.builder().connectionConfig(config()).build();
    }

    static void same(Object seen, Object expected, String what) {
        if (!Objects.equals(seen, expected)) {
            throw new Mismatch(what + ": " + shortened(seen) + " instead of " + shortened(expected));
        }
    }

    static void check(boolean condition, String what) {
        if (!condition) throw new Mismatch(what);
    }

    static SandboxApiException refused(String what, Runnable call) {
        try {
            call.run();
        } catch (SandboxApiException error) {
            return error;
        }
        throw new Mismatch(what + " was not refused");
    }

    /** The client can only ask again; the states in between are not ours to choose. */
    static void await(String what, BooleanSupplier reached) throws InterruptedException {
        final long end = System.nanoTime() + PATIENCE.toNanos();
        while (!reached.getAsBoolean()) {
            check(System.nanoTime() < end, what + " was not seen");
            Thread.sleep(20);
        }
    }

    static void awaitState(Sandbox sandbox, String state) throws InterruptedException {
        await("state " + state, () -> sandbox.getInfo().getStatus().getState().equals(state));
    }

    static String fetch(String url) throws Exception {
        final HttpResponse<String> response = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .build()
                .send(HttpRequest.newBuilder(URI.create(url)).timeout(PATIENCE).build(),
                        HttpResponse.BodyHandlers.ofString());
        same(response.statusCode(), 200, "GET of a port");
        return response.body();
    }

    static String shortened(Object value) {
        final String text = String.valueOf(value);
        return text.length() <= 120 ? text : text.substring(0, 117) + "...";
    }

    private Suite() {}
}
