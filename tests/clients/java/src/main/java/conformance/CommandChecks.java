package conformance;

import static conformance.Suite.check;
import static conformance.Suite.inSandbox;
import static conformance.Suite.same;

import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.OutputMessage;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

final class CommandChecks {
    private static final int LINES = 100_000;

    static void add(Map<String, Suite.Check> checks) {
        checks.put("commands: foreground", () -> inSandbox(Suite.sandbox(Suite.config()).env("WORD", "from the create"),
                CommandChecks::foreground));
        checks.put("commands: background", () -> inSandbox(CommandChecks::background));
        checks.put("commands: interrupt", () -> inSandbox(CommandChecks::interrupt));
        checks.put("commands: 100,000 lines", () -> inSandbox(CommandChecks::manyLines));
    }

    /** The output of a command that must succeed, its lines joined. */
    static String output(Sandbox sandbox, String command) {
        final Execution done = sandbox.commands().run(command);
        check(done.getError() == null, command + " ended with " + exitCode(done) + ": " + text(done.getLogs().getStderr()));
        return text(done.getLogs().getStdout());
    }

    static String background(Sandbox sandbox, String command) {
        final Execution started =
                sandbox.commands().run(RunCommandRequest.builder().command(command).background(true).build());
        check(started.getError() == null, "a background command began with an error");
        check(started.getId() != null && !started.getId().isEmpty(), "a background command has no id");
        return started.getId();
    }

    private static String exitCode(Execution done) {
        return done.getError() == null ? "0" : done.getError().getValue();
    }

    private static String text(List<OutputMessage> messages) {
        return String.join("\n", messages.stream().map(OutputMessage::getText).toList());
    }

    private static String foreground(Sandbox sandbox) {
        final Execution both = sandbox.commands().run("echo out; echo err >&2; echo more");
        same(text(both.getLogs().getStdout()), "out\nmore", "stdout");
        same(text(both.getLogs().getStderr()), "err", "stderr");
        same(exitCode(both), "0", "exit code");
        check(both.getId() != null && !both.getId().isEmpty(), "no id");
        final Execution three = sandbox.commands().run("echo before; exit 3");
        same(exitCode(three), "3", "exit code");
        same(text(three.getLogs().getStdout()), "before", "stdout of what failed");
        same(output(sandbox, "printf %s \"$WORD\""), "from the create", "environment");
        final Execution elsewhere = sandbox.commands().run(
                RunCommandRequest.builder().command("pwd").workingDirectory("/usr/share").build());
        same(text(elsewhere.getLogs().getStdout()), "/usr/share", "working directory");

        // It ends only after its first line was heard.
        final List<String> heard = new ArrayList<>();
        final AtomicInteger completed = new AtomicInteger();
        final ExecutionHandlers handlers = ExecutionHandlers.builder()
                .onStdout(message -> {
                    heard.add(message.getText());
                    if (heard.size() == 1) sandbox.files().writeFile("/tmp/heard", "yes");
                })
                .onExecutionComplete(complete -> completed.incrementAndGet())
                .build();
        sandbox.commands().run(RunCommandRequest.builder()
                .command("echo first; until [ -e /tmp/heard ]; do sleep 0.05; done; echo second")
                .handlers(handlers)
                .build());
        same(heard, List.of("first", "second"), "lines heard");
        same(completed.get(), 1, "events of completion");
        return "the client has no environment per command: that of the create was checked";
    }

    private static String background(Sandbox sandbox) {
        // Whether it still runs is asked with a command: the client has no call for the status.
        final String command = "echo \"$$\" > /tmp/pid; until [ -e /tmp/end ]; do sleep 0.05; done; echo over > /tmp/over; exit 5";
        background(sandbox, command);
        same(output(sandbox, "until [ -s /tmp/pid ]; do sleep 0.05; done; kill -0 \"$(cat /tmp/pid)\" && echo runs"),
                "runs", "a background command after its call has returned");
        sandbox.files().writeFile("/tmp/end", "now");
        same(output(sandbox, "while kill -0 \"$(cat /tmp/pid)\" 2>/dev/null; do sleep 0.05; done; cat /tmp/over"), "over",
                "what it did before it ended");
        return "the client has no call for status, exit code and log: seen from inside";
    }

    private static String interrupt(Sandbox sandbox) {
        final String id = background(sandbox, "echo \"$$\" > /tmp/sleeper; exec sleep 600");
        output(sandbox, "until [ -s /tmp/sleeper ]; do sleep 0.05; done");
        sandbox.commands().interrupt(id);
        output(sandbox, "while kill -0 \"$(cat /tmp/sleeper)\" 2>/dev/null; do sleep 0.05; done");

        // A foreground command tells how it ended.
        final Execution[] begun = new Execution[1];
        final List<String> ids = new ArrayList<>();
        begun[0] = sandbox.commands().run(RunCommandRequest.builder()
                .command("echo ready; sleep 600; echo not reached")
                .handlers(ExecutionHandlers.builder()
                        .onInit(init -> ids.add(init.getId()))
                        .onStdout(message -> sandbox.commands().interrupt(ids.get(0)))
                        .build())
                .build());
        same(text(begun[0].getLogs().getStdout()), "ready", "output of what was interrupted");
        check(!exitCode(begun[0]).equals("0"), "an interrupted command ended with 0");
        return "the client has no timeout per command: a foreground command was interrupted instead";
    }

    private static String manyLines(Sandbox sandbox) {
        final List<OutputMessage> lines = sandbox.commands().run("seq " + LINES).getLogs().getStdout();
        same(lines.size(), LINES, "lines");
        for (int i = 0; i < LINES; ++i) same(lines.get(i).getText(), String.valueOf(i + 1), "line " + (i + 1));
        return "";
    }

    private CommandChecks() {}
}
