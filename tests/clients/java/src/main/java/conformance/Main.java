package conformance;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Runs the checks and prints one line of JSON for each, as ../README.md says. */
public final class Main {
    public static void main(String[] arguments) {
        final PrintStream results = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what the client prints by itself is no result
        final Map<String, Suite.Check> checks = new LinkedHashMap<>();
        LifecycleChecks.add(checks);
        final String chosen = System.getenv().getOrDefault("OSB_FEATURES", "");
        final List<String> wanted = chosen.isEmpty() ? List.copyOf(checks.keySet()) : Arrays.asList(chosen.split(";"));
        checks.forEach((feature, check) -> {
            if (wanted.contains(feature)) results.println(line(feature, check));
        });
        System.exit(0); // the client's threads would keep it alive for a minute
    }

    private static String line(String feature, Suite.Check check) {
        final long begun = System.nanoTime();
        String result = "works";
        String reason;
        try {
            reason = check.run();
        } catch (Suite.NotOffered missing) {
            result = "not offered";
            reason = missing.getMessage();
        } catch (Exception | AssertionError wrong) {
            result = "fails";
            reason = wrong instanceof Suite.Mismatch
                    ? wrong.getMessage()
                    : wrong.getClass().getSimpleName() + ": " + wrong.getMessage();
            if (System.getenv("OSB_VERBOSE") != null) wrong.printStackTrace();
        }
        return String.format(Locale.ROOT, "{\"feature\": %s, \"result\": %s, \"reason\": %s, \"seconds\": %.2f}",
                json(feature), json(result), json(reason), (System.nanoTime() - begun) / 1e9);
    }

    private static String json(String text) {
        final StringBuilder out = new StringBuilder("\"");
        for (final char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private Main() {}
}
